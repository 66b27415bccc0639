import pytest

from errata.wording import nearest, one_line


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("plain", "plain"),
        (
            "file could not be opened successfully:\n- method gz: no\n- method xz: no",
            "file could not be opened successfully",
        ),
        ("\n  two   blanks\tand a tab \n", "two blanks and a tab"),
        ("", "KeyError"),
        (" \n ", "KeyError"),
        ("x" * 200, "x" * 160 + " ..."),
    ],
)
def test_what_a_library_says_becomes_one_line(said, line):
    error = type("KeyError", (Exception,), {})(said)
    assert one_line(error) == line


def test_the_nearest_name_is_found_whatever_its_capitals():
    known = ["Species", "length", "satellite"]
    assert nearest("specie", known) == "Species"
    assert nearest("SATELITE", known) == "satellite"
    assert nearest("colour", known) is None
    assert nearest("colour", []) is None
