"""Classes that differ only in spaces, capitals, type or the spelling of a number, as one class."""

from collections import defaultdict
from dataclasses import replace

import numpy as np

from errata.errors import InputError
from errata.readers.label_encoding import class_remarks, spelling
from errata.readers.user_data import UserData
from errata.wording import listed


def merge_labels(data: UserData) -> UserData:
    """The data with each group of such classes as one, named by its most frequent spelling."""
    groups: dict[object, list[int]] = defaultdict(list)
    counts = np.bincount(data.labels, minlength=data.num_classes)
    for code, name in enumerate(data.classes):
        groups[spelling(name)].append(code)
    kept = sorted(max(codes, key=lambda code: counts[code]) for codes in groups.values())
    if len(kept) < 2:
        raise InputError(
            f"merging labels leaves a single class: {listed(data.classes)} differ only in spaces, capitals, type or "
            "the spelling of a number. Finding errors needs two classes: omit `merge_labels=`, or check the labels"
        )
    number = np.empty(data.num_classes, dtype=np.int64)
    remarks = []
    for place, code in enumerate(kept):
        codes = groups[spelling(data.classes[code])]
        number[codes] = place
        others = [data.classes[other] for other in codes if other != code]
        if others:
            remarks.append(f"labels {listed(others)} are merged into class {data.classes[code]!r}")
    labels, classes = number[data.labels], tuple(data.classes[code] for code in kept)
    before = set(class_remarks(data.classes, counts))
    now = class_remarks(classes, np.bincount(labels, minlength=len(classes)))
    others = [remark for remark in data.remarks if remark not in before]
    return replace(data, labels=labels, classes=classes, remarks=(*others, *remarks, *now))
