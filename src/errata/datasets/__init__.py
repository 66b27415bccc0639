"""The benchmark's datasets, in files of `sets`: source, licence, parsing, preparation and settings.

`load` returns a prepared dataset; `load_setting` adds the noisy labels of a benchmark setting.
A user's own files are read by `errata.readers`.
May be imported by `errata.bench`, `errata.cli` and above. Imports `errata.readers`, `errata.training` and below.
"""

from errata.datasets.loading import LabelledSetting, load, load_setting
from errata.datasets.registry import dataset, datasets, setting, settings

__all__ = ["LabelledSetting", "dataset", "datasets", "load", "load_setting", "setting", "settings"]
