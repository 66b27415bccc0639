"""Twelve datasets in seventeen settings, read from their official files, and anybody's own data."""

from errata.datasets.labelled import Labelled, load_setting
from errata.datasets.loading import load
from errata.datasets.registry import dataset, datasets, setting, settings
from errata.readers import OwnData, open_data

__all__ = [
    "Labelled",
    "OwnData",
    "dataset",
    "datasets",
    "load",
    "load_setting",
    "open_data",
    "setting",
    "settings",
]
