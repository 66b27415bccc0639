"""Readers for users' own data: tables, text, arrays and images become samples with class labels.

`open_data` accepts a path, a data frame or arrays and returns `UserData`. One file of `formats` reads one file type.
May be imported by `errata.report`, `errata.finding`, `errata.review`, `errata.bench` and `errata.cli`.
Imports `errata.core`, `errata.dynamics` and below.
"""

from errata.readers.opening import open_data
from errata.readers.user_data import Features, UserData

__all__ = ["Features", "UserData", "open_data"]
