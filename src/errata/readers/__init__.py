"""A user's own data: a table, a folder of images, arrays; understood without being told more than the label column."""

from errata.readers.opening import open_data
from errata.readers.user_data import Features, OwnData

__all__ = ["Features", "OwnData", "open_data"]
