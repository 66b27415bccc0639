"""Tables as text: for the terminal, Markdown, LaTeX with booktabs, HTML, and the numbers as CSV."""

import html as markup
import re
from collections.abc import Callable, Iterable, Iterator
from io import StringIO
from typing import TYPE_CHECKING

from errata.bench.evaluation.result_table import MISSING, ResultTable, TableEntry
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
    "[": "{[}",  # after the end of a row, a bracket starts an optional argument
    "–": "--",
    "±": r"$\pm$",
    "†": r"$^\dagger$",
    "×": r"$\times$",
    "−": "$-$",
}


def show(table: ResultTable) -> None:
    """Print a table. On a terminal it has styles, and is split into parts that fit the width."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        print(terminal(table), end="")
        return
    for part in _parts(table, console.width):
        console.print(_rich_table(table, part))
    for note in table.notes:
        console.print(note, style="dim", markup=False, highlight=False)


def terminal(table: ResultTable) -> str:
    """The printed table in one part, without styles."""
    from rich.console import Console

    text = StringIO()
    console = Console(file=text, width=_WIDE)
    console.print(_rich_table(table, range(len(table.columns))))
    for note in table.notes:
        console.print(note, markup=False, highlight=False)
    return text.getvalue()


def markdown(table: ResultTable) -> str:
    """A pipe table with its title above and its notes below."""
    lines = [
        _pipes(map(_markdown_text, table.columns)),
        _pipes("---" if column < table.labels else "---:" for column in range(len(table.columns))),
        *(_pipes(map(_markdown_entry, row)) for row in table.rows),
    ]
    notes = [f"- {_markdown_text(note)}" for note in table.notes]
    return "\n".join([f"**{_markdown_text(table.title)}**", "", *lines, *([""] if notes else []), *notes, ""])


def latex(table: ResultTable) -> str:
    """A table environment, for the package booktabs."""
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


def html(table: ResultTable) -> str:
    """A table element of class `results` with its notes. `data-sort` has the sort key of an entry."""
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


def _rich_table(table: ResultTable, columns: Iterable[int]) -> "RichTable":
    from rich.style import Style
    from rich.table import Table as RichTable
    from rich.text import Text

    columns = list(columns)
    shown = RichTable(title=table.title, title_justify="left")
    for column in columns:
        justify = "left" if column < table.labels else "right"
        shown.add_column(Text(table.columns[column]), justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for number, row in enumerate(table.rows):
        if number in table.rules:
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


def _pipes(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_text(text: str) -> str:
    return re.sub(r"([\\|*_`<>\[\]])", r"\\\1", text)


def _markdown_entry(entry: TableEntry) -> str:
    return _styled(_markdown_text(entry.text), (entry.underline, "<ins>{}</ins>"), (entry.bold, "**{}**"))


def _latex_row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex_text(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def _latex_entry(entry: TableEntry) -> str:
    return _styled(_latex_text(entry.text), (entry.bold, r"\textbf{{{}}}"), (entry.underline, r"\underline{{{}}}"))


def _html_entry(entry: TableEntry, is_label: bool) -> str:
    text = _styled(markup.escape(entry.text), (entry.bold, "<strong>{}</strong>"), (entry.underline, "<u>{}</u>"))
    sort_key = repr(entry.value) if entry.value is not None else "" if entry.text == MISSING else entry.text
    key = markup.escape(sort_key)
    return f'<th scope="row" data-sort="{key}">{text}</th>' if is_label else f'<td data-sort="{key}">{text}</td>'


def _styled(text: str, *styles: tuple[bool, str]) -> str:
    """The text in the templates of the styles that are on."""
    for is_on, template in styles:
        text = template.format(text) if is_on else text
    return text
