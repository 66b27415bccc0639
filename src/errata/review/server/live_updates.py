"""Server-sent events: pages learn about the verdicts of others within a second, and the ranking follows them."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from errata.review.server.review_session import ReviewSession

HEARTBEAT = 15.0  # seconds; a page that is open keeps its samples
GATHER = 0.2  # seconds in which changes are sent together


class LiveUpdates:
    """The open pages, and the places that changed since each was last told."""

    def __init__(self, session: ReviewSession) -> None:
        self._session = session
        self._pages: set[asyncio.Queue[list[int]]] = set()
        self._ranking: asyncio.Task[Any] | None = None

    def announce(self, places: list[int]) -> None:
        """Tell all pages that these samples changed, and rank the others again if it is time."""
        for page in self._pages:
            page.put_nowait(places)
        if self._ranking is None or self._ranking.done():
            self._ranking = asyncio.create_task(asyncio.to_thread(self._session.rerank_if_due))

    async def stream(self, reviewer: str) -> AsyncIterator[bytes]:
        """The changes for one page, as text/event-stream."""
        page: asyncio.Queue[list[int]] = asyncio.Queue()
        self._pages.add(page)
        try:
            yield _message({"number": self._session.last_number, "run": self._session.samples.run})
            while True:
                await asyncio.to_thread(self._session.still_here, reviewer)
                try:
                    places = await asyncio.wait_for(page.get(), HEARTBEAT)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                await asyncio.sleep(GATHER)
                while not page.empty():
                    places = places + page.get_nowait()
                yield _message(await asyncio.to_thread(self._session.changes, reviewer, places))
        finally:
            self._pages.discard(page)


def _message(data: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
