"""Stores what arrives at the same time in one transaction: one synchronisation of the disk serves all."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from errata.review.server.review_session import Reply, ReviewSession

Waiting = tuple[str, Sequence[Any], "asyncio.Future[Reply]"]


class GroupCommit:
    """Collects events while a transaction runs, and stores them in the next."""

    def __init__(self, session: ReviewSession, announce: Callable[[list[int]], None]) -> None:
        """announce: called with the places that changed, in the event loop."""
        self._session, self._announce = session, announce
        self._waiting: list[Waiting] = []
        self._worker: asyncio.Task[None] | None = None

    async def record(self, reviewer: str, events: Sequence[Any]) -> Reply:
        """Returns when the events are on disk; raises the error of the transaction if they are not."""
        result: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting.append((reviewer, events, result))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return await result

    async def _work(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                sent = [(reviewer, events) for reviewer, events, _ in batch]
                replies, changed = await asyncio.to_thread(self._session.record, sent)
            except Exception as error:  # each request answers with it
                for _, _, result in batch:
                    if not result.done():
                        result.set_exception(error)
                continue
            for reply, (_, _, result) in zip(replies, batch, strict=True):
                if not result.done():
                    result.set_result(reply)
            if changed:
                self._announce(changed)
