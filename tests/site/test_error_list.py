"""The page of error messages: messages of real errors are on it, and each frequent one has its own advice."""

import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import errata

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "docs" / "extensions"))

import error_list  # noqa: E402 - the extensions of the site are not a package

SOURCE = ROOT / "src" / "errata"
LOGITS = np.zeros((2, 4, 2))
TABLE = pd.DataFrame({"size": range(60), "kind": ["a"] * 60})


def record_twice():
    recorder = errata.Recorder(labels=[0, 1], num_classes=2)
    recorder.update([0], LOGITS[0, :1])
    recorder.update([0], LOGITS[0, :1])


def record_half():
    recorder = errata.Recorder(labels=[0, 1], num_classes=2)
    recorder.update([0], LOGITS[0, :1])
    recorder.end_epoch()


ERRORS = {
    "one class": lambda: errata.find(TABLE, "kind"),
    "no such column": lambda: errata.find(TABLE, "species"),
    "no file": lambda: errata.find("flowers-that-are-not-there.csv", "species"),
    "unknown method": lambda: errata.score(LOGITS, [0, 1, 0, 1], "MeanProb-XY"),
    "too few labels": lambda: errata.score(LOGITS, [0, 1], "Mean-LM"),
    "unknown looks": lambda: errata.find(TABLE, "kind", looks=3),
    "twice in an epoch": record_twice,
    "not in an epoch": record_half,
}


def patterns():
    """A pattern per message of the page: values stand for any text."""
    texts = {text for texts in error_list.messages(SOURCE).values() for text in texts}
    parts = [re.split(f"{error_list.VALUE.pattern}|{error_list.UNKNOWN}", text)[::2] for text in texts]
    return [re.compile(".*".join(re.escape(part) for part in part_of) + "$", re.DOTALL) for part_of in parts]


@pytest.mark.parametrize("case", ERRORS)
def test_the_message_of_an_error_is_on_the_page(case):
    with pytest.raises(errata.ErrataError) as raised:
        ERRORS[case]()
    words = [pattern for pattern in patterns() if len(re.findall("[a-z]{2,}", pattern.pattern)) > 1]
    assert any(pattern.match(str(raised.value)) for pattern in words), raised.value


def test_the_page_advises_on_frequent_messages_and_on_every_part():
    page = error_list.page(SOURCE)
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert len(rows) == len(error_list.FREQUENT) + 1
    assert page.count("**What to do.**") == len(error_list.PARTS)
    assert "⟨" not in page


def test_advice_on_a_message_that_does_not_exist_is_refused(monkeypatch):
    monkeypatch.setattr(error_list, "FREQUENT", [{"message": "no error says this", "advice": ""}])
    with pytest.raises(ValueError, match="no message contains"):
        error_list.page(SOURCE)


def test_values_are_in_italics_and_code_stays_code():
    assert error_list.shown("⟨path⟩⟨hint⟩ has [x_1]: pass `id=⟨name⟩`") == r"*path* has \[x\_1\]: pass `id=NAME`"
