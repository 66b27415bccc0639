"""Reading decisions.csv: only whole rows, and the place of every problem."""

import pandas as pd
import pytest

from errata.errors import ErrataError
from errata.review.correction_plan import plan_corrections
from errata.review.decisions import Decisions

HEADER = "id,label,decision,new_label"
ROWS = f"{HEADER}\n0,ant,relabel,bee\n1,bee,keep,\n"


@pytest.fixture
def decisions(tmp_path):
    def write(content, name="decisions.csv"):
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return tmp_path / name

    return write


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"{ROWS}2,ant,relabel,bee,extra\n", "line 4 has 5 cells, but the header has 4"),
        (f"{ROWS}2,ant\n", "line 4 has 2 cells, but the header has 4"),
        (f'{ROWS}2,ant,relabel,"bee\n3,bee,keep,\n', "line 4: .*Check the quotes"),
        (f'{ROWS}2,ant,relabel,"bee"x\n', "line 4: .*Check the quotes"),
        (f'"{ROWS}', "line 1: .*Check the quotes"),
        (f"{ROWS}2,ant,relabel,b\0e\n", "line 4 contains a NUL character"),
        (f"{ROWS}\0\0\0\0\n", "line 4 contains a NUL character"),
        (f"{ROWS}2,ant,perhaps,bee\n", "line 4: the decision must be keep, accept, relabel or skip, not 'perhaps'"),
        (f"{ROWS}2,ant,relabel, \n", "line 4: the decision is relabel, but new_label is empty"),
        (ROWS.encode("utf-16")[:-1], "is not UTF-16-LE"),
        (b"\xef\xbb\xbf" + f"{ROWS}2,ant,relabel,sch\xf6n\n".encode("latin-1"), "line 4 is not UTF-8"),
        ("\n\n", "is empty"),
        (f"{HEADER}\n", "contains no decisions"),
    ],
)
def test_malformed_files_are_refused_with_the_file_and_the_line(decisions, content, message):
    with pytest.raises(ErrataError, match=rf"decisions.csv.*{message}"):
        Decisions.read(decisions(content))


@pytest.mark.parametrize(
    "content",
    [
        ROWS,
        f"{ROWS}\n,,,\n",
        ROWS.replace("\n", ",,\n"),
        ROWS.replace(",", ";"),
        ROWS.replace("\n", "\r\n"),
        ROWS.encode("utf-16"),
        b"\xef\xbb\xbf" + ROWS.encode(),
        "rank,decision,new_label,id,label\ninf,relabel,bee,0,ant\n,keep,,1,bee\n",
    ],
)
def test_files_of_spreadsheets_are_read(decisions, content):
    read = Decisions.read(decisions(content))
    rows = [(entry.id, entry.label, entry.decision, entry.new_label) for entry in read.entries]
    assert rows == [("0", "ant", "relabel", "bee"), ("1", "bee", "keep", "")]


def test_two_open_quotes_that_join_rows_make_no_class(decisions, tmp_path):
    (tmp_path / "data.csv").write_text("a,kind\n0,ant\n1,bee\n2,ant\n3,bee\n")
    path = decisions(f'{HEADER}\n1,bee,keep,\n0,ant,relabel,"bee\n2,ant,relabel,bee\n3,bee,relabel,ant"\n')
    with pytest.raises(ErrataError, match=r"decisions.csv: line 3: the new label .* has line breaks. Check the quotes"):
        plan_corrections(tmp_path / "data.csv", path, label="kind")


def test_classes_with_line_breaks_can_be_reviewed(decisions, tmp_path):
    (tmp_path / "data.csv").write_text('a,kind\n0,"an\nt"\n1,bee\n2,"an\nt"\n3,bee\n')
    plan = plan_corrections(tmp_path / "data.csv", decisions(f'{HEADER}\n1,bee,accept,"an\nt"\n'), label="kind")
    assert [edit.after for edit in plan.edits.entries] == ["an\nt"]


def test_several_reviewers_are_combined(decisions):
    ann = decisions(f"{HEADER}\n0,ant,relabel,bee\n1,bee,skip,\n2,ant,skip,\n3,bee,keep,\n", "ann.csv")
    bob = decisions(f"{HEADER}\n1,bee,keep,\n2,ant,skip,\n3,bee,keep,\n4,ant,accept,bee\n", "bob.csv")
    combined = Decisions.read(ann, bob)
    words = {entry.id: entry.decision for entry in combined.entries}
    assert words == {"0": "relabel", "1": "keep", "2": "skip", "3": "keep", "4": "accept"}
    assert combined.origin == f"{ann} and {bob}"
    assert {entry.id: entry.origin for entry in combined.entries if entry.id in "01"} == {"0": str(ann), "1": str(bob)}


def test_different_decisions_are_listed_with_their_places(decisions, tmp_path):
    ann = decisions(f"{HEADER}\n0,ant,relabel,bee\n1,bee,keep,\n7,ant,accept,bee\n", "ann.csv")
    bob = decisions(f"{HEADER}\n7,ant,keep,\n0,ant,relabel,cat\n1,bee,keep,\n", "bob.csv")
    (tmp_path / "data.csv").write_text(
        "a,kind\n" + "".join(f"{row},{'ant' if row % 2 else 'bee'}\n" for row in range(9))
    )
    with pytest.raises(ErrataError) as refused:
        plan_corrections(tmp_path / "data.csv", [ann, bob], label="kind")
    first, *lines = str(refused.value).splitlines()
    assert first == f"2 samples have two different decisions in {ann} and {bob}. Delete one of each:"
    assert lines == [
        f"  id '0': relabel 'bee' ({ann}: line 2), relabel 'cat' ({bob}: line 3)",
        f"  id '7': accept 'bee' ({ann}: line 4), keep ({bob}: line 2)",
    ]


def test_very_many_different_decisions_are_cut_off():
    rows = [(row, "ant", word, "bee") for row in range(150) for word in ("keep", "accept")]
    with pytest.raises(ErrataError, match=r"150 samples have") as refused:
        Decisions.from_table(pd.DataFrame(rows, columns=HEADER.split(",")))
    assert str(refused.value).splitlines()[-1].strip() == "and 50 more"


def test_decisions_are_read_from_paths_only():
    with pytest.raises(ErrataError, match="a path must be text, not 1"):
        Decisions.read(1)
