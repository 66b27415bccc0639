from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from errata.core.method_registry import registered
from errata.core.methods import parse
from errata.core.replay import Epochs, replay
from errata.core.windows import epoch_grid, grid_windows, window_scores
from errata.errors import InputError


def one_by_one(epochs, method, windows):
    parts = [replace(epochs, logits=epochs.logits[start : end + 1]) for start, end in windows]
    return np.stack([replay(part, [method])[0].scores for part in parts])


@pytest.mark.parametrize("epochs", [1, 2, 7, 50, 51, 150, 1444])
def test_the_grid_is_that_of_the_paper(epochs):
    grid = epoch_grid(epochs)
    expected = sorted({int(np.floor(v)) for v in np.linspace(0, epochs - 1, 50)})
    assert grid.tolist() == expected
    assert (grid[0], grid[-1]) == (0, epochs - 1)
    if epochs >= 50:
        assert len(grid_windows(epochs)) == 1275


@pytest.mark.parametrize(
    "name",
    [f"{a}-{m}" for a in ("MeanProb", "Mean", "Last", "EMA", "LateStopping") for m in registered("measure")],
)
def test_shared_windows_equal_single_windows(curves, name):
    logits, labels, _ = curves(1, epochs=12, samples=40)
    epochs, windows = Epochs(logits, labels), grid_windows(12)
    np.testing.assert_allclose(
        window_scores(epochs, parse(name), windows), one_by_one(epochs, parse(name), windows), rtol=1e-11, atol=1e-13
    )


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_any_set_of_windows(data):
    total = data.draw(st.integers(1, 9))
    pairs = st.tuples(st.integers(0, total - 1), st.integers(0, total - 1)).map(lambda p: (min(p), max(p)))
    windows = data.draw(st.lists(pairs, min_size=1, max_size=6, unique=True))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    epochs = Epochs(rng.normal(size=(total, 7, 3)) * 4, rng.integers(0, 3, 7))
    for name in ("MeanProb-LM", "Mean-CE", "Last-LM"):
        np.testing.assert_allclose(
            window_scores(epochs, parse(name), windows),
            one_by_one(epochs, parse(name), windows),
            rtol=1e-11,
            atol=1e-13,
        )


def test_probabilities_too_small_to_add_up(curves):
    logits, labels, _ = curves(2, epochs=6, samples=30, dtype=np.float64)
    logits[:, 4, (labels[4] + 1) % 5] += 3000
    logits[1, 9, labels[9]] -= 2000
    epochs, windows = Epochs(logits, labels), grid_windows(6)
    for name in ("MeanProb-LM", "MeanProb-CE"):
        np.testing.assert_allclose(
            window_scores(epochs, parse(name), windows), one_by_one(epochs, parse(name), windows), rtol=1e-11
        )


def test_missing_epochs(curves):
    logits, labels, _ = curves(3, epochs=6, samples=30)
    logits[2, 5] = np.nan
    epochs, windows = Epochs(logits, labels, allow_missing=True), [(0, 5), (1, 3)]
    np.testing.assert_allclose(
        window_scores(epochs, parse("Mean-LM"), windows), one_by_one(epochs, parse("Mean-LM"), windows)
    )


@pytest.mark.parametrize("windows", [[(0, 12)], [(-1, 3)], [(5, 4)], [(0, 1), (0, 1)]])
def test_invalid_windows_are_refused(curves, windows):
    logits, labels, _ = curves(1, epochs=12, samples=40)
    with pytest.raises(InputError, match="window"):
        window_scores(Epochs(logits, labels), parse("Mean-CE"), windows)
