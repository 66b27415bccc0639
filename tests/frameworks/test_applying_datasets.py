"""Correct a folder saved by Hugging Face datasets, and load the copy."""

import pandas as pd

import datasets
import errata


def test_a_corrected_dataset_loads_with_datasets(tmp_path):
    classes = datasets.ClassLabel(names=["ant", "bee"])
    features = datasets.Features({"text": datasets.Value("string"), "kind": classes, "size": datasets.Value("int8")})
    rows = {"text": [f"text {row}" for row in range(20)], "kind": [0, 1] * 10, "size": range(20)}
    dataset = datasets.Dataset.from_dict(rows, features=features)
    dataset.save_to_disk(tmp_path / "set", num_shards=3)
    decisions = pd.DataFrame(
        {"id": [0, 19], "label": ["ant", "bee"], "decision": ["accept", "relabel"], "new_label": ["bee", "cat"]}
    )
    applied = errata.apply(tmp_path / "set", decisions, label="kind")
    corrected = datasets.load_from_disk(applied.copy)
    assert corrected["kind"][:] == [1, 1, *[0, 1] * 8, 0, 2]
    assert corrected.features["kind"].names == ["ant", "bee", "cat"]
    assert corrected.remove_columns("kind").to_dict() == dataset.remove_columns("kind").to_dict()
    assert corrected._fingerprint != datasets.load_from_disk(tmp_path / "set")._fingerprint
    smaller = errata.apply(tmp_path / "set", decisions, label="kind", drop=True, out=tmp_path / "smaller")
    assert datasets.load_from_disk(smaller.copy)["size"][:] == list(range(1, 19))
