"""Which of the candidates to train: all are tried on a part of the data held out, wrong labels and all."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from errata.dynamics.files import replace_atomically
from errata.errors import InputError
from errata.finding.candidates import Candidate
from errata.finding.trials import MOST_TRIED_ON, VALIDATION, Tried, attempt
from errata.readers import UserData

if TYPE_CHECKING:
    from errata.finding.model_training import FindProgress

# Losses this close are no difference on so many samples held out or fewer, and boosting then ranks better: on Digits it
# missed 1.6 % of the errors, and an MLP of the same log loss 3.1 %. Of more samples, smaller differences are clear.
CLEARLY, OF_SO_MANY = 0.02, 2_000


@dataclass(frozen=True, eq=False)
class Choice:
    """What is to be trained, for as long as was best, why, in words, and its log loss on the part held out."""

    candidate: Candidate
    how: str
    loss: float


def choose(
    candidates: Sequence[Candidate], data: UserData, device: str, folder: Path | None, watcher: "FindProgress"
) -> Choice:
    """The candidate that does best on a part held out.

    In a folder, trials that an interrupted call has ended are not made again, and one that it has begun goes on.
    """
    tried: list[Tried] = []
    clearly = clear_difference(data.samples)
    for number, candidate in enumerate(candidates):
        file = None if folder is None else folder / f"trial-{number}-{candidate.name}.json"
        if file is not None and file.exists():
            tried.append(_ended(candidate, file))
            watcher.advance(candidate.recipe.epochs)
            continue
        begun = None if file is None else file.with_suffix(".begun")
        tried.append(_try(candidate, data, device, watcher, _to_beat(candidate, tried, clearly), begun))
        if file is not None and begun is not None:
            _keep(tried[-1], file)
            begun.unlink(missing_ok=True)
    best = _best(tried, clearly)
    if not math.isfinite(best.loss):
        raise InputError("no model could be trained on this data: every one diverged")
    others = sorted((one for one in tried if one is not best), key=lambda one: one.loss)
    against = f", against {others[0].loss:.3f} of {others[0].candidate.title}" if others else ""
    how = (
        f"The model is {best.candidate.title}, by its log loss on a fifth of the samples, held out as they are "
        f"labelled: {best.loss:.3f}{against}{_why(best, others, clearly)}."
    )
    return Choice(best.candidate, how, best.loss)


def clear_difference(samples: int) -> float:
    """By what share a loss must be lower to be clearly so, in trials on so many samples."""
    held_out = VALIDATION * min(samples, MOST_TRIED_ON)
    return CLEARLY * min(1.0, math.sqrt(OF_SO_MANY / held_out))


def _why(best: Tried, others: Sequence[Tried], clearly: float) -> str:
    """Why a model with a higher loss was taken, if it was."""
    return f", which would have to be {clearly:.1%} better" if others and others[0].loss < best.loss else ""


def _best(tried: Sequence[Tried], clearly: float) -> Tried:
    """The least loss; an earlier candidate stays unless a later one is clearly better."""
    best = tried[0]
    for one in tried[1:]:
        if one.loss < (1 - clearly) * best.loss or (one.candidate.name == best.candidate.name and one.loss < best.loss):
            best = one
    return best


def _keep(tried: Tried, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"recipe": asdict(tried.candidate.recipe), "loss": tried.loss})
    replace_atomically(file, lambda opened: opened.write(text.encode()))


def _ended(candidate: Candidate, file: Path) -> Tried:
    """What `_keep` kept of a trial."""
    kept = json.loads(file.read_text(encoding="utf-8"))
    return Tried(replace(candidate, recipe=type(candidate.recipe).of(kept["recipe"])), kept["loss"])


def _to_beat(candidate: Candidate, tried: Sequence[Tried], clearly: float) -> float:
    """The loss below which a candidate would be chosen of those tried so far."""
    if not tried:
        return math.inf
    best = _best(tried, clearly)
    return best.loss if best.candidate.name == candidate.name else (1 - clearly) * best.loss


def _try(
    candidate: Candidate,
    data: UserData,
    device: str,
    watcher: "FindProgress",
    to_beat: float,
    checkpoint: Path | None,
) -> Tried:
    watcher.begin(f"trying {candidate.title}", candidate.recipe.epochs)
    done = 0

    def tell(epochs: int) -> None:
        nonlocal done
        done += epochs
        watcher.advance(epochs)

    tried = attempt(candidate, data, device, tell, to_beat, checkpoint)
    watcher.advance(candidate.recipe.epochs - done)  # a trial ends where more does not help
    return tried
