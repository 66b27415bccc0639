"""A table for display with its unrounded numbers, and its formats: terminal, Markdown, LaTeX, HTML and CSV."""

import html as markup
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

import pandas as pd
from rich.console import Console
from rich.style import Style
from rich.table import Table as RichTable
from rich.text import Text

from errata.errors import InputError

MISSING = "–"
INCOMPLETE = "†"
_WIDE = 10_000
_BETWEEN_COLUMNS = 3
_LATEX = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "[": "{[}",  # after the end of a row, a bracket starts an optional argument
    "–": "--",
    "±": r"$\pm$",
    "†": r"$^\dagger$",
    "×": r"$\times$",
    "−": "$-$",
}


@dataclass(frozen=True)
class TableEntry:
    """One entry of a table: its text, and the number to sort by, if there is one."""

    text: str
    value: float | None = None
    bold: bool = False
    underline: bool = False


@dataclass(eq=False)
class ResultTable:
    """Rows of entries under named columns. Rows may be created from plain values, which become entries.

    numbers: the unrounded values in tidy form. labels: how many of the first columns name a row. digits: by column, the
    decimal places of plain values. grouped: whether a line separates rows with different first entries. notes: lines
    below the table, such as why entries are missing; empty ones are left out.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    numbers: pd.DataFrame
    labels: int = 1
    digits: Mapping[str, int] = field(default_factory=dict)
    grouped: bool = False
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        digits = [self.digits.get(column) for column in self.columns]
        self.rows = [[_entry(*pair) for pair in zip(row, digits, strict=True)] for row in self.rows]
        self.notes = [note for note in self.notes if note]
        self.group_starts = {
            number
            for number in range(1, len(self.rows))
            if self.grouped and self.rows[number][0].text != self.rows[number - 1][0].text
        }


def _entry(value: Any, digits: int | None) -> TableEntry:
    if isinstance(value, TableEntry):
        return value
    if isinstance(value, str):
        return TableEntry(value)
    if pd.isna(value):
        return TableEntry(MISSING)
    if pd.api.types.is_bool(value):
        return TableEntry("yes" if value else "no", float(value))
    if pd.api.types.is_integer(value):
        return TableEntry(f"{value:,}", float(value))
    return TableEntry(f"{value:g}" if digits is None else f"{value:z.{digits}f}", float(value))


def mark_incomplete(text: str, complete: bool) -> str:
    """The text, with a dagger if the data was incomplete."""
    return text if complete else f"{text} {INCOMPLETE}"


def show(table: ResultTable) -> None:
    """Print a table. On a terminal it has styles, and is split into parts that fit the width."""
    console = Console()
    if not console.is_terminal:
        console.width = _WIDE
    _print(table, console)


def terminal(table: ResultTable) -> str:
    """The printed table in one part, without styles."""
    text = StringIO()
    _print(table, Console(file=text, width=_WIDE))
    return text.getvalue()


def _print(table: ResultTable, console: Console) -> None:
    for part in _parts(table, console.width):
        console.print(_rich_table(table, part))
    for note in table.notes:
        console.print(note, style="dim", markup=False, highlight=False)


def _rich_table(table: ResultTable, columns: list[int]) -> RichTable:
    shown = RichTable(title=table.title, title_justify="left")
    for column in columns:
        justify = "left" if column < table.labels else "right"
        shown.add_column(Text(table.columns[column]), justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for number, row in enumerate(table.rows):
        if number in table.group_starts:
            shown.add_section()
        entries = (row[column] for column in columns)
        # A span has the style, not the whole text: otherwise the padding would be underlined too.
        shown.add_row(*(Text.assemble((one.text, Style(bold=one.bold, underline=one.underline))) for one in entries))
    return shown


def _parts(table: ResultTable, width: int) -> Iterator[list[int]]:
    """Groups of columns that fit the width, each with the columns that name the rows."""
    sizes = [
        max([len(name), *(len(row[column].text) for row in table.rows)]) + _BETWEEN_COLUMNS
        for column, name in enumerate(table.columns)
    ]
    labels = list(range(table.labels))
    part = list(labels)
    for column in range(table.labels, len(sizes)):
        if len(part) > len(labels) and sum(sizes[one] for one in [*part, column]) >= width:
            yield part
            part = list(labels)
        part.append(column)
    yield part


def markdown(table: ResultTable) -> str:
    """A pipe table with its title above and its notes below."""

    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cells)} |"

    styles = {"underline": "<ins>{}</ins>", "bold": "**{}**"}
    lines = [
        line(map(_markdown_text, table.columns)),
        line("---" if column < table.labels else "---:" for column in range(len(table.columns))),
        *(line(_styled(entry, _markdown_text, styles) for entry in row) for row in table.rows),
    ]
    notes = [f"- {_markdown_text(note)}" for note in table.notes]
    return "\n".join([f"**{_markdown_text(table.title)}**", "", *lines, *([""] if notes else []), *notes, ""])


def _markdown_text(text: str) -> str:
    return re.sub(r"([\\|*_`<>\[\]])", r"\\\1", text)


def latex(table: ResultTable) -> str:
    """A table environment, for the package booktabs."""

    def line(cells: Iterable[str]) -> str:
        return " & ".join(cells) + r" \\"

    styles = {"bold": r"\textbf{{{}}}", "underline": r"\underline{{{}}}"}
    body = []
    for number, row in enumerate(table.rows):
        body += [r"\midrule"] if number in table.group_starts else []
        body.append(line(_styled(entry, _latex_text, styles) for entry in row))
    notes = [f"{_latex_text(note)}\\\\" for note in table.notes]
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_latex_text(table.title)}}}",
        rf"\begin{{tabular}}{{{'l' * table.labels + 'r' * (len(table.columns) - table.labels)}}}",
        r"\toprule",
        line(map(_latex_text, table.columns)),
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        *([r"\par\smallskip\footnotesize\raggedright", *notes] if notes else []),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_text(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def html(table: ResultTable) -> str:
    """A table element of class `results` with its notes. `data-sort` has the sort key of an entry."""
    head = "".join(f'<th scope="col">{markup.escape(column)}</th>' for column in table.columns)
    rows = []
    for number, row in enumerate(table.rows):
        cells = "".join(_html_entry(entry, column < table.labels) for column, entry in enumerate(row))
        rows.append(f'<tr class="rule">{cells}</tr>' if number in table.group_starts else f"<tr>{cells}</tr>")
    notes = [f"<li>{markup.escape(note)}</li>" for note in table.notes]
    lines = [
        '<table class="results">',
        f"<caption>{markup.escape(table.title)}</caption>",
        f"<thead><tr>{head}</tr></thead>",
        "<tbody>",
        *rows,
        "</tbody>",
        "</table>",
        *(['<ul class="notes">', *notes, "</ul>"] if notes else []),
    ]
    return "\n".join(lines) + "\n"


def _html_entry(entry: TableEntry, is_label: bool) -> str:
    text = _styled(entry, markup.escape, {"bold": "<strong>{}</strong>", "underline": "<u>{}</u>"})
    sort_key = repr(entry.value) if entry.value is not None else "" if entry.text == MISSING else entry.text
    key = markup.escape(sort_key)
    return f'<th scope="row" data-sort="{key}">{text}</th>' if is_label else f'<td data-sort="{key}">{text}</td>'


def _styled(entry: TableEntry, escape: Callable[[str], str], styles: Mapping[str, str]) -> str:
    """The escaped text in the templates of its styles."""
    text = escape(entry.text)
    for style, template in styles.items():
        text = template.format(text) if getattr(entry, style) else text
    return text


def csv(table: ResultTable) -> str:
    """The unrounded numbers."""
    return table.numbers.to_csv(index=False)


FORMATS: dict[str, Callable[[ResultTable], str]] = {
    "terminal": terminal,
    "markdown": markdown,
    "latex": latex,
    "html": html,
    "csv": csv,
}


def render(table: ResultTable, form: str) -> str:
    """The table in one of the formats."""
    if form not in FORMATS:
        raise InputError(f"Unknown format {form!r}. Formats: {', '.join(FORMATS)}.")
    return FORMATS[form](table)
