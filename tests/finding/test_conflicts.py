import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy.sparse import csr_matrix

from errata.finding.conflicts import conflicts, input_groups
from errata.readers import open_data


def pairs_of(groups):
    return {(i, j) for i in range(len(groups)) for j in range(i) if groups[i] == groups[j]}


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([None, 0.5, 1.5])), min_size=4, max_size=20))
def test_groups_match_a_pairwise_comparison_of_rows(rows):
    frame = pd.DataFrame(rows, columns=["a", "b"]).astype({"b": float})
    frame["a"] = ["xyz"[value] for value in frame["a"]]
    frame = pd.concat([frame, pd.DataFrame({"a": ["p", "q"], "b": [7.0, 8.0]})], ignore_index=True)
    labels = [row % 2 for row in range(len(frame))]
    data = open_data(frame, labels)
    cells = [tuple("gap" if pd.isna(cell) else cell for cell in row) for row in frame.itertuples(index=False)]
    assert pairs_of(input_groups(data)) == pairs_of(cells)


def test_conflicts_are_listed_by_group():
    frame = pd.DataFrame({"name": list("uvwxyz"), "n": [1, 2, 1, 3, 2, 1], "y": ["a", "a", "b", "b", "a", "a"]})
    table = conflicts(open_data(frame, "y", id="name"))
    assert table.to_dict("list") == {"group": [1, 1, 1], "id": ["u", "w", "z"], "label": ["a", "b", "a"]}


def test_without_equal_inputs_there_are_no_conflicts():
    frame = pd.DataFrame({"n": [1, 2, 3, 4], "y": [0, 1, 0, 1]})
    assert conflicts(open_data(frame, "y")).empty


def test_excluded_columns_are_ignored():
    rows = 40
    frame = pd.DataFrame({"key": [f"k{row}" for row in range(rows)], "n": [row // 2 for row in range(rows)]})
    table = conflicts(open_data(frame, [row % 2 for row in range(rows)]))
    assert table["group"].nunique() == rows // 2


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_negative_and_stored_zeros_equal_zero(kind):
    values = np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0], [2.0, 0.0]])
    inputs = values
    if kind == "sparse":
        inputs = csr_matrix(values)
        inputs.data = np.append(inputs.data, 0.0)  # a zero that is stored
        inputs.indices = np.append(inputs.indices, 1)
        inputs.indptr[-1] += 1
    table = conflicts(open_data(inputs, ["a", "b", "a", "b"]))
    assert table["id"].tolist() == [0, 1]


def test_texts_and_images_can_conflict(tmp_path):
    texts = ["one two three", "four five six", "one two three", "seven eight nine"]
    assert conflicts(open_data(texts, [0, 1, 1, 0]))["id"].tolist() == [0, 2]
    images = np.zeros((4, 16, 16), dtype=np.uint8)
    images[1:3, 3, 3] = 9
    images[3, 4, 4] = 9
    assert conflicts(open_data(images, [0, 0, 1, 1]))["id"].tolist() == [1, 2]
    for name, shade, size in (("cat/1", 10, 20), ("dog/1", 10, 20), ("cat/2", 30, 20), ("dog/2", 30, 80)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (size, size), (shade,) * 3).save(tmp_path / f"{name}.png")
    data = open_data(tmp_path)
    assert data.kind == "image files"
    assert conflicts(data)["id"].tolist() == ["cat/1.png", "dog/1.png"]
