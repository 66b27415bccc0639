"""A table has the same content in every format, and its text is escaped."""

import csv
import io
import re
from html.parser import HTMLParser

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from synthetic_results import write_seeds

from errata.bench.evaluation import result_table
from errata.bench.evaluation.result_table import FORMATS, ResultTable, TableEntry
from errata.bench.evaluation.table_registry import build
from errata.errors import InputError

NUMBERS = pd.DataFrame({"method": ["Mean-CE", "Mean-LM"], "mean_percent": [1 / 3, 2 / 3]})
TABLE = ResultTable(
    title="FNR (%) & more",
    columns=("method", "credit_fraud"),
    rows=(
        (TableEntry("Mean-CE"), TableEntry("0.33 ± 0.10", 1 / 3, bold=True, underline=True)),
        (TableEntry("Last|LM <b>"), TableEntry("–")),
        (TableEntry("[bold]x"), TableEntry("0.67 †", 2 / 3, bold=True)),
    ),
    numbers=NUMBERS,
    grouped=True,
    notes=("– not run: a_b", "50 % & <i>"),
)


class Read(HTMLParser):
    """An HTML table as a browser parses it."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.rows, self.sort, self.notes, self.open = [], [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open, "every element is closed"

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.tags.append((tag, dict(attributes)))
        if tag == "tr":
            self.rows.append([])
            self.sort.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.sort[-1].append(dict(attributes).get("data-sort"))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data
        if "li" in self.open:
            self.notes.append(data)


def cells_of_markdown(text):
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_html_holds_every_text_style_sort_key_and_note():
    page = Read(result_table.html(TABLE))
    assert page.rows[0] == list(TABLE.columns)
    assert page.rows[1:] == [[entry.text for entry in row] for row in TABLE.rows]
    assert page.sort[1:] == [["Mean-CE", repr(1 / 3)], ["Last|LM <b>", ""], ["[bold]x", repr(2 / 3)]]
    assert page.notes == list(TABLE.notes)
    names = [tag for tag, _ in page.tags]
    assert (names.count("strong"), names.count("u"), names.count("b"), names.count("i")) == (2, 1, 0, 0)
    assert ("table", {"class": "results"}) in page.tags
    assert [attributes for tag, attributes in page.tags if tag == "tr"] == [
        {},
        {},
        {"class": "rule"},
        {"class": "rule"},
    ]


def test_markdown_is_a_pipe_table_with_bold_and_underlined():
    rows = cells_of_markdown(result_table.markdown(TABLE))
    assert rows[:2] == [["method", r"credit\_fraud"], ["---", "---:"]]
    assert rows[2] == ["Mean-CE", "**<ins>0.33 ± 0.10</ins>**"]
    assert rows[3] == [r"Last\|LM \<b\>", "–"]
    assert rows[4][1] == "**0.67 †**"
    assert r"- – not run: a\_b" in result_table.markdown(TABLE)


def test_latex_is_booktabs_with_every_special_character_escaped():
    text = result_table.latex(TABLE)
    assert r"\caption{FNR (\%) \& more}" in text
    assert r"\begin{tabular}{lr}" in text
    assert r"method & credit\_fraud \\" in text
    assert r"Mean-CE & \underline{\textbf{0.33 $\pm$ 0.10}} \\" in text
    assert r"Last|LM \textless{}b\textgreater{} & -- \\" in text
    assert r"{[}bold]x & \textbf{0.67 $^\dagger$} \\" in text
    assert text.count(r"\midrule") == 3
    assert [text.count(rf"\{rule}") for rule in ("toprule", "bottomrule")] == [1, 1]
    assert r"50 \% \& \textless{}i\textgreater{}\\" in text
    assert text.isascii()


def test_csv_is_the_numbers_in_full():
    read = pd.read_csv(io.StringIO(result_table.csv(TABLE)))
    pd.testing.assert_frame_equal(read, NUMBERS)


def test_plain_text_has_every_text_on_a_line_of_its_row_and_the_notes():
    lines = result_table.terminal(TABLE).splitlines()
    for row in TABLE.rows:
        assert [line for line in lines if all(entry.text in line for entry in row)]
    assert [line.strip() for line in lines[-2:]] == list(TABLE.notes)


def test_a_terminal_shows_bold_and_underlined_and_cuts_a_wide_table_in_parts(monkeypatch):
    names = [f"setting-number-{number}" for number in range(8)]
    wide = ResultTable("wide", ["method", *names], [["Mean-CE", *("1.00 ± 0.10" for _ in names)]], NUMBERS)
    shown = io.StringIO()
    console = Console(file=shown, width=80, force_terminal=True, color_system=None)
    monkeypatch.setattr(result_table, "Console", lambda: console)
    result_table.show(wide)
    lines = shown.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert all(sum(name in line for line in lines) == 1 for name in names)
    assert sum("Mean-CE" in line for line in lines) > 1
    styled = io.StringIO()
    console = Console(file=styled, width=80, force_terminal=True, color_system="standard")
    result_table.show(TABLE)
    assert "\x1b[1;4m0.33 ± 0.10" in styled.getvalue()


def test_a_table_without_rows_is_rendered():
    empty = ResultTable("nothing", ("method", "a"), (), NUMBERS.head(0))
    for name in FORMATS:
        assert result_table.render(empty, name)
    result_table.show(empty)


texts = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=12)


@given(st.lists(st.tuples(texts, texts, st.booleans(), st.booleans()), min_size=1, max_size=4))
def test_no_text_is_taken_for_markup(rows):
    entries = tuple((TableEntry(a), TableEntry(b, bold=bold, underline=line)) for a, b, bold, line in rows)
    table = ResultTable("t", ("x", "y"), entries, NUMBERS)
    assert Read(result_table.html(table)).rows[1:] == [[a, b] for a, b, _, _ in rows]
    assert [len(row) for row in cells_of_markdown(result_table.markdown(table))] == [2] * (len(rows) + 2)
    body = result_table.latex(table).split("\\midrule\n")[1].split("\\bottomrule")[0]
    unescaped = re.sub(r"\\(textbackslash|textasciitilde|textasciicircum|textless|textgreater)\{\}", "", body)
    assert len(re.findall(r"(?<!\\)&", unescaped)) == len(rows)
    assert not re.findall(r"(?<!\\)[%#_~]", unescaped)


def test_an_unknown_format_is_refused():
    with pytest.raises(InputError, match="terminal, markdown, latex, html, csv"):
        result_table.render(TABLE, "pdf")


def test_plain_values_become_entries_and_empty_notes_are_left_out():
    values = ["a", 12345, 0.256, -0.001, True, None]
    columns = ["name", "count", "share", "little", "yes", "none"]
    table = ResultTable("t", columns, [values], NUMBERS, digits={"share": 2, "little": 2}, notes=["", "a note"])
    (row,) = table.rows
    assert [entry.text for entry in row] == ["a", "12,345", "0.26", "0.00", "yes", "–"]
    assert [entry.value for entry in row] == [None, 12345, 0.256, -0.001, 1, None]
    assert table.notes == ["a note"]


def test_groups_start_where_the_first_entry_changes():
    rows = [[name, 1] for name in ("a", "a", "b", "c", "c", "a")]
    assert ResultTable("t", ["x", "y"], rows, NUMBERS, grouped=True).group_starts == {2, 3, 5}
    assert ResultTable("t", ["x", "y"], rows, NUMBERS).group_starts == set()


def test_a_real_table_says_the_same_in_every_format(tmp_path):
    table = build("noise-rate", write_seeds(tmp_path, "cifar10n-worse", {"Mean-CE": [7.0, 9.0], "Mean-LM": [7.5, 8.0]}))
    for name in ("terminal", "markdown", "html"):
        assert "8.00 ± 1.00" in FORMATS[name](table)
    assert r"8.00 $\pm$ 1.00" in FORMATS["latex"](table)
    rows = list(csv.DictReader(io.StringIO(FORMATS["csv"](table))))
    assert {row["method"]: float(row["mean_percent"]) for row in rows} == pytest.approx({"Mean-CE": 8, "Mean-LM": 7.75})
