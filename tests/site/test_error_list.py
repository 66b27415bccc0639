"""The page of error messages: messages of real errors are on it, and each frequent one has its own advice."""

import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import errata
from torture import malformed_arrays, malformed_calls, malformed_folders, malformed_images, malformed_tables

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "docs" / "extensions"))

import error_list  # noqa: E402 - the extensions of the site are not a package
from error_texts import UNKNOWN, VALUE, says_something  # noqa: E402

SOURCE = ROOT / "src" / "errata"
LOGITS = np.zeros((2, 4, 2))
TABLE = pd.DataFrame({"size": range(60), "kind": ["a"] * 60})
MALFORMED = (malformed_tables, malformed_arrays, malformed_images, malformed_folders, malformed_calls)
SLOWEST_S = 60.0  # cases with a longer limit write hundreds of megabytes


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


@pytest.fixture(scope="module")
def listed():
    """A pattern per message of the page: values stand for any text. Only messages with two words can be recognised."""
    texts = {text for texts in error_list.messages(SOURCE).values() for text in texts}
    literal = [re.split(f"{VALUE.pattern}|{UNKNOWN}", text)[::2] for text in texts]
    wordy = [parts for parts in literal if len(re.findall(r"[A-Za-z]{2,}", " ".join(parts))) > 1]
    patterns = "|".join(".*".join(map(re.escape, parts)) + "$" for parts in wordy)
    return re.compile(rf"(?:\S+: )?(?:{patterns})", re.DOTALL)  # the name of a file may stand before a message


@pytest.mark.parametrize("case", ERRORS)
def test_the_message_of_an_error_is_on_the_page(case, listed):
    with pytest.raises(errata.ErrataError) as raised:
        ERRORS[case]()
    assert listed.match(str(raised.value)), raised.value


@pytest.mark.filterwarnings("ignore")
def test_the_messages_about_malformed_input_are_on_the_page(listed, tmp_path, monkeypatch):
    """The inputs with which `make torture` attacks; of a message of the operating system, only the file is errata's."""
    messages = {}

    def refuse(message):
        raise errata.InputError(message)

    monkeypatch.setattr("errata.cli.app.as_options", lambda message: message)
    monkeypatch.setattr("errata.cli.app._exit_with", refuse)
    cases = [case for module in MALFORMED for case in module.cases()]
    for number, case in enumerate(cases):
        if case.expected != "refused" or case.as_nobody or case.time_limit > SLOWEST_S:
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        case.prepare(folder)
        try:
            case.work()
        except errata.ErrataError as error:
            messages[case.name] = str(error)
        except (Exception, SystemExit):  # with a message of another library or of the operating system
            continue
    assert len(messages) > 300
    assert {name: message for name, message in messages.items() if not listed.match(message)} == {}


def test_texts_that_helpers_build_and_short_ones_are_on_the_page():
    page = error_list.page(SOURCE)
    for text in (
        "*path*: line … is not valid JSON",
        "*path* is not a complete Parquet file: ",
        "*path* is not a complete archive: ",
        "Unknown dataset *name*.",
        "Unknown setting *name*.",
        "Unknown suite *name*.",
        "Unknown table *name*.",
        "this recorder has recorded a training already",
        "has *number cells*, but the header has",
        "cannot be read as an image: …. Ignore such files with `skip_bad=True`",
    ):
        assert text in page
    lines = page.splitlines()
    for quoted in error_list.ADVICE["quoted"]:
        assert f"- {quoted}" not in lines


def test_every_message_says_something():
    texts = [text for texts in error_list.messages(SOURCE).values() for text in texts]
    assert len(texts) > 700
    assert all(map(says_something, texts))


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
