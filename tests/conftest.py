"""Shared by all tests."""

import os
import shutil
import signal
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"

# The first call of a kernel compiles it; a deadline would time the compiler.
settings.register_profile("errata", deadline=None, max_examples=50, derandomize=True)
settings.load_profile("errata")

# A shell starts what runs in the background deaf to Ctrl-C, and so would be the tests that send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def learned_curves(seed, epochs=12, samples=60, classes=5, noise=0.2, dtype=np.float32):
    """Logits (E, N, K) of a made-up run that learns the true class early and wrong labels late, labels, truth."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, classes, samples)
    wrong = rng.random(samples) < noise
    labels = np.where(wrong, (true + rng.integers(1, classes, samples)) % classes, true)
    logits = rng.normal(size=(epochs, samples, classes))
    progress = np.linspace(0, 1, epochs)[:, None]
    rows = np.arange(samples)
    logits[:, rows, true] += 4 * progress
    logits[:, rows, labels] += 3 * progress**3
    return logits.astype(dtype), labels, wrong


@pytest.fixture(scope="session", autouse=True)
def held_out_predictions_once():
    """Compute the held-out predictions of equal data once for all tests: they are a function of the arguments."""
    from errata.core import pooling
    from errata.core.held_out_models import held_out_predictions
    from errata.finding import model_training

    computed = {}

    def predictions_of_equal_data(inputs, labels, classes, nearest=None):
        parts = (inputs.data, inputs.indices, inputs.indptr) if hasattr(inputs, "indptr") else (np.asarray(inputs),)
        arrays = (*parts, labels)
        key = (classes, *(value for array in arrays for value in (array.shape, array.dtype, array.tobytes())))
        if key not in computed:
            computed[key] = held_out_predictions(inputs, labels, classes, nearest)
        return [predictions.copy() for predictions in computed[key]]

    with pytest.MonkeyPatch.context() as patch:
        for module in (pooling, model_training):
            patch.setattr(module, "held_out_predictions", predictions_of_equal_data)
        yield


@pytest.fixture(scope="session")
def curves():
    return learned_curves


@pytest.fixture
def errata_command(monkeypatch, capsys, tmp_path):
    """Run `errata ...` in a folder of its own: exit code, standard output, standard error."""
    from errata import cli

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # the command sets its own

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["errata", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            cli.main()
        captured = capsys.readouterr()
        return left.value.code, captured.out, captured.err

    return run


@pytest.fixture(scope="session")
def real_data():
    """The folder with the real files: one folder per dataset."""
    folder = Path(os.environ.get("ERRATA_DATA", SHARED_DATA))
    if not folder.is_dir():
        pytest.skip(f"There is no real data in {folder}. Set ERRATA_DATA.")
    return folder


# A page is opened in a browser of its own that never looks for the network.
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def chromium():
    """A running Chromium; without one its tests are left out, unless ERRATA_BROWSER=required."""
    executable = shutil.which("chromium")
    if executable is None:
        sentence = "there is no chromium on this machine, so pages are not tested in a browser"
        pytest.fail(sentence) if os.environ.get("ERRATA_BROWSER") == "required" else pytest.skip(sentence)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium):
    """An empty page that is offline; an error in its script fails the test."""
    context = chromium.new_context(offline=True, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    yield page
    context.close()
    assert errors == []
