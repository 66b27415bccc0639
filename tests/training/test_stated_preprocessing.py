"""preprocessor_config.json with any values: it is used, or refused in a sentence that says what to do."""

import json
import re
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from errata.errors import InputError
from errata.training.stated_preprocessing import read_preprocessing

SETTINGS = {
    "size": {"height": 16, "width": 16},
    "resample": 2,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}
REFUSED = re.compile(r".*processor_config\.json.* writes this file")
WITH_CROP = {**SETTINGS, "size": {"shortest_edge": 24}, "do_resize": True, "do_center_crop": True, "crop_size": 16}
WITH_PART = {**SETTINGS, "size": {"shortest_edge": 24}, "crop_pct": 0.875}
PARTS = {"size": ("height", "width", "shortest_edge"), "crop_size": ("height", "width", "shortest_edge")}

numbers = st.integers() | st.floats() | st.sampled_from([0, -1, 10**400, 1e-320, 1e308, 0.5, True])
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def read(content, folder):
    (folder / "preprocessor_config.json").write_text(content)
    return read_preprocessing(folder)


def is_used_or_refused(settings):
    """Whether an image becomes finite numbers, or an error names the file and says what to do."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            prepare = read(json.dumps(settings), Path(folder))
        except InputError as error:
            return REFUSED.fullmatch(str(error)) is not None
    if prepare.side > 64:
        return True
    pixels = torch.from_numpy(prepare.pixels(Image.new("RGB", (9, 7), (1, 2, 3))))
    return bool(torch.isfinite(prepare.normalised(pixels[None])).all())


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("size", {"height": "x", "width": "x"}, 'height of size is "x", and must be a number of pixels'),
        ("size", {"shortest_edge": "a"}, 'shortest_edge of size is "a"'),
        ("size", {"height": {}, "width": {}}, "height of size is {}"),
        ("size", True, "size is true"),
        ("size", 0, "size is 0"),
        ("size", 16.5, "size is 16.5"),
        ("size", [16, 16], r"size is \[16, 16\]"),
        ("size", 10**6, "from 1 to 4,096 pixels, not 1,000,000"),
        ("size", None, "states no square size"),
        ("size", {"height": 16, "width": 20}, "states no square size"),
        ("crop_size", "a", 'crop_size is "a"'),
        ("rescale_factor", 0, "rescale_factor is 0, and must be a number above 0"),
        ("rescale_factor", "a", 'rescale_factor is "a"'),
        ("rescale_factor", float("nan"), "rescale_factor is NaN"),
        ("image_mean", "abc", 'image_mean is "abc", and must be a number or a list of 3 numbers'),
        ("image_mean", [None, None, None], r"image_mean is \[null, null, null\]"),
        ("image_mean", None, "image_mean is not stated"),
        ("image_std", [0.5, 0.5], r"image_std is \[0.5, 0.5\]"),
        ("image_std", [0.5, 0, 0.5], "a standard deviation above 0"),
        ("do_rescale", "false", 'do_rescale is "false", and must be true or false'),
    ],
)
def test_a_wrong_value_is_named_with_what_is_expected(name, value, sentence, tmp_path):
    with pytest.raises(InputError, match=sentence):
        read(json.dumps({**SETTINGS, name: value}), tmp_path)


def test_a_wrong_part_of_the_image_is_named(tmp_path):
    with pytest.raises(InputError, match='crop_pct is "x"'):
        read(json.dumps({**WITH_PART, "crop_pct": "x"}), tmp_path)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [("[]", "holds no settings by name"), ("3", "holds no settings"), ("[" * 10**5, "is damaged"), ("{", "is damaged")],
)
def test_a_file_without_settings_is_damaged(content, sentence, tmp_path):
    with pytest.raises(InputError, match=rf"preprocessor_config\.json .*{sentence}.*writes this file"):
        read(content, tmp_path)


@pytest.mark.parametrize("settings", [SETTINGS, WITH_CROP, WITH_PART])
def test_these_settings_are_used(settings, tmp_path):
    assert read(json.dumps(settings), tmp_path).side in (16, 24)


@given(settings=st.sampled_from([SETTINGS, WITH_CROP, WITH_PART]), data=st.data())
def test_any_value_is_used_or_refused(settings, data):
    name = data.draw(st.sampled_from(sorted(settings)))
    assert is_used_or_refused({**settings, name: data.draw(values)})


@given(settings=st.sampled_from([SETTINGS, WITH_CROP, WITH_PART]), data=st.data())
def test_any_part_of_a_size_is_used_or_refused(settings, data):
    name = data.draw(st.sampled_from(sorted(PARTS)))
    parts = {part: data.draw(values) for part in data.draw(st.sets(st.sampled_from(PARTS[name])))}
    assert is_used_or_refused({**settings, name: parts})


@given(settings=st.dictionaries(st.sampled_from([*WITH_CROP, "crop_pct"]), values))
def test_any_values_together_are_used_or_refused(settings):
    assert is_used_or_refused(settings)
