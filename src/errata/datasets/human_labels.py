"""CIFAR-N: labels that people gave to the training images of CIFAR-10 and CIFAR-100."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from errata.datasets.pickles import read_torch
from errata.datasets.spec import Arrays, Content, Prepared, Raw
from errata.errors import DataError

CLEAN = "clean"
BIBTEX = """@inproceedings{wei2022learning,
  author = {Wei, Jiaheng and Zhu, Zhaowei and Cheng, Hao and Liu, Tongliang and Niu, Gang and Liu, Yang},
  title = {Learning with Noisy Labels Revisited: A Study Using Real-World Human Annotations},
  booktitle = {International Conference on Learning Representations},
  year = {2022}
}"""


def read_human_labels(columns: Mapping[str, str], paths: Sequence[Path]) -> Raw:
    """The clean labels and `columns`, each int64 (N,); `columns` says what the file calls each."""
    path = paths[0]
    content = read_torch(path)
    arrays: Arrays = {}
    for name, key in {CLEAN: "clean_label", **columns}.items():
        labels = content.get(key)
        if not isinstance(labels, np.ndarray) or labels.ndim != 1 or labels.dtype.kind not in "iu":
            raise DataError(f"{path} has no whole numbers {key!r}")
        arrays[name] = labels.astype(np.int64)
    return Raw(arrays)


def prepare_human_labels(raw: Raw, base: Prepared | None) -> Content:
    """Given labels by name, and whether each is wrong; they must be those of the images in `base`, in its order."""
    assert base is not None
    clean = np.asarray(base.train_labels)
    arrays: Arrays = {}
    for name, labels in raw.arrays.items():
        if labels.shape != clean.shape:
            raise DataError(f"there are {len(labels)} {name} labels for the {len(clean)} images of {base.name}")
        if name == CLEAN:
            continue
        if labels.min() < 0 or labels.max() >= base.num_classes:
            row = int(np.argmax((labels < 0) | (labels >= base.num_classes)))
            raise DataError(f"{name} label {labels[row]} of row {row} is none of the {base.num_classes} classes")
        arrays |= {f"given:{name}": labels, f"wrong:{name}": (labels != clean).astype(np.int8)}
    differs = raw.arrays[CLEAN] != clean
    if differs.any():
        row = int(np.argmax(differs))
        raise DataError(
            f"the clean labels beside the human ones are not those of {base.name}, first in row {row} "
            f"({raw.arrays[CLEAN][row]} and {clean[row]}): are they in another order?"
        )
    return Content(arrays)
