"""random-part.csv: the samples that `errata certify --draw` drew at random, in the order of the draw."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from errata.core.random_part import design_seed, next_draws
from errata.errors import InputError, StoreError
from errata.finding.found import Found
from errata.readers.whole_rows import rows_by_line
from errata.terminal import write_table
from errata.wording import counted

if TYPE_CHECKING:
    import pandas as pd

FILE = "random-part.csv"
COLUMNS = ["id", "label", "suggested", "first", "seed"]


class RandomDraw(NamedTuple):
    """One sample drawn at random. first: from the first so many samples of the ranking; None: from all."""

    id: str
    first: int | None


def found_seed(found: Found) -> int:
    """The seed of the random part; folders of earlier versions do not state it."""
    stated = found.summary.get("random_part")
    return int(stated["seed"]) if stated else design_seed(found.dynamics.labels)


def read_draws(folder: Path, found: Found) -> list[RandomDraw]:
    """All draws so far; none if there is no file."""
    path = folder / FILE
    if not path.is_file():
        return []
    header, lines = rows_by_line(path)
    if header != COLUMNS:
        raise StoreError(f"{path} is damaged: it must have the columns {', '.join(COLUMNS)}")
    seed, known, draws = str(found_seed(found)), set(map(str, found.ranking["id"].tolist())), []
    for line, (id_, _, _, first, its_seed) in lines.items():
        if its_seed != seed:
            raise StoreError(f"{path}: line {line} was drawn for other labels. Delete the file and draw again.")
        if id_ not in known or not (first == "" or (first.isascii() and first.isdecimal() and len(first) < 19)):
            raise StoreError(f"{path} is damaged: line {line} names the sample {id_!r} and the first {first!r}")
        draws.append(RandomDraw(id_, int(first) if first else None))
    return draws


def draw_more(
    found: Found, earlier: Sequence[RandomDraw], judged: Sequence[str], count: int, first: int | None = None
) -> list[RandomDraw]:
    """Draw `count` more samples, uniformly from those that were not drawn before and have no verdict.

    judged: the ids with a verdict. first: only from the first so many samples of the ranking.
    """
    ids = list(map(str, found.dynamics.ids.tolist()))
    rows = {id_: row for row, id_ in enumerate(ids)}
    taken = {rows[id_] for id_ in judged} | {rows[draw.id] for draw in earlier}
    if first is not None:
        taken |= {rows[id_] for id_ in map(str, found.ranking["id"].iloc[first:].tolist())}
    drawn = next_draws(len(ids), found_seed(found), np.array(sorted(taken), dtype=np.int64), count)
    if len(drawn) < count:
        among = "" if first is None else f" among the first {first:,}"
        raise InputError(f"only {counted(len(drawn), 'sample has', 'samples have')} no verdict and no draw yet{among}")
    return [RandomDraw(ids[row], first) for row in drawn.tolist()]


def write_draws(folder: Path, found: Found, draws: Sequence[RandomDraw]) -> "pd.DataFrame":
    """Write all draws to random-part.csv, and return them as a table."""
    import pandas as pd

    by_id = found.ranking.set_index(found.ranking["id"].map(str))
    rows = by_id.loc[[draw.id for draw in draws]]
    table = pd.DataFrame(
        {
            "id": [draw.id for draw in draws],
            "label": rows["label"].map(str).to_numpy(),
            "suggested": rows["suggested"].map(str).to_numpy(),
            "first": ["" if draw.first is None else str(draw.first) for draw in draws],
            "seed": found_seed(found),
        }
    )
    write_table(table, folder / FILE)
    return table
