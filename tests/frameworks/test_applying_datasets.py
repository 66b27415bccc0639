"""A folder that Hugging Face datasets has saved, corrected, and loaded by it again."""

import pandas as pd

import datasets
import errata


def test_a_corrected_dataset_is_loaded_by_the_library_that_saved_it(tmp_path):
    classes = datasets.ClassLabel(names=["ant", "bee"])
    features = datasets.Features({"text": datasets.Value("string"), "kind": classes, "size": datasets.Value("int8")})
    rows = {"text": [f"text {row}" for row in range(20)], "kind": [0, 1] * 10, "size": range(20)}
    dataset = datasets.Dataset.from_dict(rows, features=features)
    dataset.save_to_disk(tmp_path / "set", num_shards=3)
    decisions = pd.DataFrame(
        {"id": [0, 19], "label": ["ant", "bee"], "decision": ["accept", "relabel"], "new_label": ["bee", "cat"]}
    )
    applied = errata.apply(tmp_path / "set", decisions, label="kind")
    again = datasets.load_from_disk(applied.copy)
    assert again["kind"][:] == [1, 1, *[0, 1] * 8, 0, 2]
    assert again.features["kind"].names == ["ant", "bee", "cat"]
    assert again.remove_columns("kind").to_dict() == dataset.remove_columns("kind").to_dict()
    assert again._fingerprint != datasets.load_from_disk(tmp_path / "set")._fingerprint
    left = errata.apply(tmp_path / "set", decisions, label="kind", drop=True, out=tmp_path / "left")
    assert datasets.load_from_disk(left.copy)["size"][:] == list(range(1, 19))
