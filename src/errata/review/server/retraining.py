"""`errata review --retrain`: train again on the verified labels, in a process of its own, and rank the rest by that."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from errata.errors import ErrataError, InputError
from errata.review.server.review_session import RETRAINED, ReviewSession
from errata.terminal import write_table
from errata.wording import counted, one_line

CHILD = "from errata.review.server.retraining import train_from_stdin; train_from_stdin()"
FEWEST_LABELS = 1  # verified labels


class Retraining:
    """At most one training at a time. `message` says how the last one went, for the page."""

    def __init__(self, session: ReviewSession, announce: Callable[[list[int]], None]) -> None:
        self._session, self._announce = session, announce
        self._task: asyncio.Task[None] | None = None
        self.message = ""

    def start(self) -> str:
        """Start a training; an InputError says why there is none."""
        if self._task is not None and not self._task.done():
            raise InputError("a training is running already")
        verified = self._session.verified_labels()
        if len(verified) < FEWEST_LABELS:
            raise InputError("no label is verified yet: judge some samples first")
        self._say(f"training again on {counted(len(verified), 'verified label')}")
        self._task = asyncio.create_task(self._train(verified))
        return self.message

    def _say(self, message: str) -> None:
        self.message = self._session.training = message
        self._announce([])

    async def _train(self, verified: dict[str, str]) -> None:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CHILD, stdin=pipe, stdout=pipe, stderr=pipe
        )
        try:
            sent = json.dumps(
                {
                    "folder": str(self._session.samples.folder.absolute()),
                    "labels": verified,
                    "run": self._session.samples.run,
                }
            )
            _, errors = await process.communicate(sent.encode())
            if process.returncode == 0:
                await asyncio.to_thread(self._session.rank_by_retrained)
                self._say(
                    f"the remaining samples are ranked by a model with {counted(len(verified), 'verified label')}"
                )
            else:
                lines = errors.decode("utf-8", "replace").strip().splitlines() or [f"exit code {process.returncode}"]
                self._say(f"training again failed, the ranking stays as it is: {one_line(lines[-1])}")
        except (ErrataError, OSError) as error:
            self._say(f"training again failed, the ranking stays as it is: {one_line(str(error))}")
        finally:
            if process.returncode is None:  # the server stops
                process.kill()


def train_from_stdin() -> None:
    """The process that trains. It reads the folder of results and the verified labels, and writes RETRAINED there."""
    os.nice(10)  # answers of the server come first
    request = json.load(sys.stdin)
    folder, labels = Path(request["folder"]), dict(request["labels"])
    from errata.finding.find import find_again

    try:
        ranking = find_again(folder, labels).ranking
        ids = ranking["id"].map(str)
        table = ranking.assign(id=ids, verified=np.isin(ids, list(labels)), run=request["run"])
        write_table(table[["id", "p_wrong", "verified", "run"]], folder / RETRAINED)
    except (ErrataError, OSError) as error:
        print(one_line(str(error)), file=sys.stderr)
        sys.exit(2)
