"""Tables as text: for a terminal, Markdown, LaTeX with booktabs, HTML, and the numbers as CSV."""

import html as markup
import re
from collections.abc import Callable, Iterator
from io import StringIO
from typing import TYPE_CHECKING

from errata.bench.evaluation.tables.table import MISSING, Entry, Table
from errata.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table as RichTable

_WIDE = 10_000
_BETWEEN_COLUMNS = 3
_LATEX = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "[": "{[}",  # after the end of a row it would begin an option
    "–": "--",
    "±": r"$\pm$",
    "†": r"$^\dagger$",
    "×": r"$\times$",
    "−": "$-$",
}


def show(table: Table) -> None:
    """Print; on a terminal in bold and underlined, and in as many parts as its width asks for."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        print(terminal(table), end="")
        return
    for part in _parts(table, console.width):
        console.print(_rich(table, part))
    for note in table.notes:
        console.print(note, style="dim", markup=False, highlight=False)


def terminal(table: Table) -> str:
    """As it is printed, in one piece and without styles."""
    from rich.console import Console

    console = Console(file=StringIO(), width=_WIDE)
    console.print(_rich(table, range(len(table.columns))))
    for note in table.notes:
        console.print(note, markup=False, highlight=False)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def markdown(table: Table) -> str:
    """A pipe table under its title, with the notes below."""
    lines = [
        _pipes(map(_markdown_text, table.columns)),
        _pipes("---" if column < table.labels else "---:" for column in range(len(table.columns))),
        *(_pipes(map(_markdown_entry, row)) for row in table.rows),
    ]
    notes = [f"- {_markdown_text(note)}" for note in table.notes]
    return "\n".join([f"**{_markdown_text(table.title)}**", "", *lines, *([""] if notes else []), *notes, ""])


def latex(table: Table) -> str:
    """A table environment; it needs the package booktabs."""
    columns = "l" * table.labels + "r" * (len(table.columns) - table.labels)
    body = []
    for number, row in enumerate(table.rows):
        body += [r"\midrule"] if number in table.rules else []
        body.append(_latex_row(map(_latex_entry, row)))
    notes = [f"{_latex_text(note)}\\\\" for note in table.notes]
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_latex_text(table.title)}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _latex_row(map(_latex_text, table.columns)),
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        *([r"\par\smallskip\footnotesize\raggedright", *notes] if notes else []),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def html(table: Table) -> str:
    """A table element of class `results`, and its notes; every entry says in `data-sort` what it is sorted by."""
    head = "".join(f'<th scope="col">{markup.escape(column)}</th>' for column in table.columns)
    rows = []
    for number, row in enumerate(table.rows):
        cells = "".join(_html_entry(entry, column < table.labels) for column, entry in enumerate(row))
        rows.append(f'<tr class="rule">{cells}</tr>' if number in table.rules else f"<tr>{cells}</tr>")
    lines = [
        '<table class="results">',
        f"<caption>{markup.escape(table.title)}</caption>",
        f"<thead><tr>{head}</tr></thead>",
        "<tbody>",
        *rows,
        "</tbody>",
        "</table>",
    ]
    if table.notes:
        notes = (f"<li>{markup.escape(note)}</li>" for note in table.notes)
        lines += ['<ul class="notes">', *notes, "</ul>"]
    return "\n".join(lines) + "\n"


def csv(table: Table) -> str:
    """The numbers behind it: a row each, not rounded."""
    return table.numbers.to_csv(index=False)


FORMATS: dict[str, Callable[[Table], str]] = {
    "terminal": terminal,
    "markdown": markdown,
    "latex": latex,
    "html": html,
    "csv": csv,
}


def render(table: Table, form: str) -> str:
    """The table in one of the formats."""
    if form not in FORMATS:
        raise InputError(f"there is no format named {form!r}; there are {', '.join(FORMATS)}")
    return FORMATS[form](table)


def _rich(table: Table, columns: "range | list[int]") -> "RichTable":
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(title=table.title, title_justify="left")
    for column in columns:
        shown.add_column(
            Text(table.columns[column]), justify="left" if column < table.labels else "right", no_wrap=True
        )
    for number, row in enumerate(table.rows):
        if number in table.rules:
            shown.add_section()
        # a span and not the style of the whole text, which would underline the padding too
        shown.add_row(*(Text.assemble((row[column].text, _rich_style(row[column]))) for column in columns))
    return shown


def _rich_style(entry: Entry) -> str:
    return " ".join(name for name, on in (("bold", entry.bold), ("underline", entry.underline)) if on)


def _parts(table: Table, width: int) -> Iterator[list[int]]:
    """Columns that fit beside each other, each time with those that name the rows."""
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


def _pipes(cells: "Iterator[str] | map[str]") -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_text(text: str) -> str:
    return re.sub(r"([\\|*_`<>\[\]])", r"\\\1", text)


def _markdown_entry(entry: Entry) -> str:
    text = _markdown_text(entry.text)
    text = f"<ins>{text}</ins>" if entry.underline else text
    return f"**{text}**" if entry.bold else text


def _latex_row(cells: "Iterator[str] | map[str]") -> str:
    return " & ".join(cells) + r" \\"


def _latex_text(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def _latex_entry(entry: Entry) -> str:
    text = _latex_text(entry.text)
    text = rf"\textbf{{{text}}}" if entry.bold else text
    return rf"\underline{{{text}}}" if entry.underline else text


def _html_entry(entry: Entry, is_label: bool) -> str:
    text = markup.escape(entry.text)
    text = f"<strong>{text}</strong>" if entry.bold else text
    text = f"<u>{text}</u>" if entry.underline else text
    key = markup.escape(_sort_key(entry))
    return f'<th scope="row" data-sort="{key}">{text}</th>' if is_label else f'<td data-sort="{key}">{text}</td>'


def _sort_key(entry: Entry) -> str:
    """A number in full, else the text; nothing for what is missing."""
    if entry.value is not None:
        return repr(entry.value)
    return "" if entry.text == MISSING else entry.text
