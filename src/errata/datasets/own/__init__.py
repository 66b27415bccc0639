"""A user's own data: a table, a folder of images, arrays; understood without being told more than the label column."""

from errata.datasets.own.data import Features, OwnData
from errata.datasets.own.opening import open_data

__all__ = ["Features", "OwnData", "open_data"]
