"""Twelve datasets in seventeen settings, read from their official files, and anybody's own data."""

from errata.datasets.labelled import Labelled, load_setting
from errata.datasets.loading import load
from errata.datasets.registry import dataset, datasets, setting, settings

__all__ = ["Labelled", "dataset", "datasets", "load", "load_setting", "setting", "settings"]
