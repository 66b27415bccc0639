"""random-part.csv: the samples that `errata certify --draw` drew at random, and those that were judged before."""

from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from errata.core.random_part import next_draws, review_queue
from errata.dynamics.ids import match_ids
from errata.errors import InputError, StoreError
from errata.finding.found import Found
from errata.readers.whole_rows import rows_by_line
from errata.terminal import write_table
from errata.wording import counted

if TYPE_CHECKING:
    import pandas as pd

FILE = "random-part.csv"
COLUMNS = ["id", "label", "suggested", "how", "seed"]
CHOSEN, RANDOM, FIRST = "chosen", "random", "random of the first "


class ReviewStep(NamedTuple):
    """A sample of the review, in the order of the review.

    chosen: it had a verdict before the next draw. Otherwise it was drawn at random, from all samples without a verdict,
    or only from the `first` samples of the ranking (a number).
    """

    id: str
    chosen: bool = False
    first: int | None = None

    @property
    def how(self) -> str:
        """The cell of the file."""
        return CHOSEN if self.chosen else RANDOM if self.first is None else f"{FIRST}{self.first}"


def read_steps(folder: Path, found: Found) -> list[ReviewStep]:
    """All steps up to the last draw; none if there is no file."""
    path = folder / FILE
    if not path.is_file():
        return []
    header, lines = rows_by_line(path)
    if header != COLUMNS:
        raise StoreError(f"{path} is damaged: it must have the columns {', '.join(COLUMNS)}")
    seed, known = str(found.random_seed), set(map(str, found.ranking["id"].tolist()))
    steps: dict[str, ReviewStep] = {}
    for line, (id_, _, _, how, its_seed) in lines.items():
        if its_seed != seed:
            raise StoreError(f"{path}: line {line} was drawn for other labels. Delete the file and draw again.")
        step = _step(id_, how)
        if id_ not in known or id_ in steps or step is None:
            raise StoreError(f"{path} is damaged: line {line} has the id {id_!r} and {how!r}")
        steps[id_] = step
    return list(steps.values())


def review_steps(folder: Path, found: Found, judged: Sequence[str]) -> list[ReviewStep]:
    """The steps in random-part.csv, or else the queue of report.html up to the first sample that is not judged.

    The queue is fixed by the labels and the ranking, so its draws are random in whatever order they were judged.
    """
    steps = read_steps(folder, found)
    if steps or not judged:
        return steps
    ids = list(map(str, found.dynamics.ids.tolist()))
    queue = review_queue(match_ids(found.dynamics.ids, found.ranking["id"].to_numpy()), found.random_seed)
    in_order = (
        ReviewStep(ids[row], chosen=not at_random)
        for row, at_random in zip(queue.rows.tolist(), queue.at_random.tolist(), strict=True)
    )
    known = set(judged)
    return list(takewhile(lambda step: step.id in known, in_order))


def _step(id_: str, how: str) -> ReviewStep | None:
    if how in (CHOSEN, RANDOM):
        return ReviewStep(id_, how == CHOSEN)
    first = how.removeprefix(FIRST)
    valid = how.startswith(FIRST) and first.isascii() and first.isdecimal() and 0 < len(first) < 19
    return ReviewStep(id_, first=int(first)) if valid else None


def draw_more(
    found: Found, earlier: Sequence[ReviewStep], judged: Iterable[str], count: int, first: int | None = None
) -> list[ReviewStep]:
    """All steps after `count` more draws, uniform among the samples without a verdict that were not drawn before.

    judged: the ids with a verdict. first: a number; draw only from that many first samples.
    """
    ids = list(map(str, found.dynamics.ids.tolist()))
    rows, before = {id_: row for row, id_ in enumerate(ids)}, {step.id for step in earlier}
    chosen = [ReviewStep(id_, chosen=True) for id_ in judged if id_ not in before]
    taken = {rows[step.id] for step in (*earlier, *chosen)}
    if first is not None:
        taken |= {rows[id_] for id_ in map(str, found.ranking["id"].iloc[first:].tolist())}
    drawn = next_draws(len(ids), found.random_seed, np.array(sorted(taken), dtype=np.int64), count)
    if len(drawn) < count:
        among = "" if first is None else f" among the first {first:,}"
        raise InputError(f"only {counted(len(drawn), 'sample has', 'samples have')} no verdict and no draw yet{among}")
    return [*earlier, *chosen, *(ReviewStep(ids[row], first=first) for row in drawn.tolist())]


def write_steps(folder: Path, found: Found, steps: Sequence[ReviewStep]) -> "pd.DataFrame":
    """Write all steps to random-part.csv, and return them as a table."""
    import pandas as pd

    by_id = found.ranking.set_index(found.ranking["id"].map(str))
    rows = by_id.loc[[step.id for step in steps]]
    table = pd.DataFrame(
        {
            "id": [step.id for step in steps],
            "label": rows["label"].map(str).to_numpy(),
            "suggested": rows["suggested"].map(str).to_numpy(),
            "how": [step.how for step in steps],
            "seed": found.random_seed,
        }
    )
    write_table(table, folder / FILE)
    return table
