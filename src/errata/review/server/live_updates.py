"""Server-sent events: pages learn about the verdicts of others within a second, and the ranking follows them."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

from errata.review.server.review_session import ReviewSession

HEARTBEAT = 15.0  # seconds; a page that is open keeps its samples
GATHER = 0.2  # seconds in which changes are sent together
PAUSE, LONGEST_PAUSE = 0.3, 0.6  # seconds between two computations of the panel


class LiveUpdates:
    """The open pages, and the places that changed since the last update of each."""

    def __init__(self, session: ReviewSession) -> None:
        self._session = session
        self._pages: set[asyncio.Queue[list[int]]] = set()
        self._follower: asyncio.Task[None] | None = None
        self._behind, self._sent = False, session.panel

    def announce(self, places: list[int]) -> None:
        """Tell all pages that these samples changed. The ranking and the panel follow."""
        self._send(places)
        self._behind = True
        if self._follower is None or self._follower.done():
            self._follower = asyncio.create_task(self._follow())

    def _send(self, places: list[int]) -> None:
        for page in self._pages:
            page.put_nowait(places)

    async def _follow(self) -> None:
        """Rank again if it is time, and compute the panel, until no verdict is new."""
        while self._behind:
            self._behind, start = False, time.monotonic()
            await asyncio.to_thread(self._session.rerank_if_due)
            await asyncio.to_thread(self._session.update_panel)
            if self._session.panel is not self._sent:
                self._sent = self._session.panel
                self._send([])
            await asyncio.sleep(min(LONGEST_PAUSE, max(PAUSE, 4 * (time.monotonic() - start))))

    async def stream(self, reviewer: str) -> AsyncIterator[bytes]:
        """The changes for one page, as text/event-stream."""
        page: asyncio.Queue[list[int]] = asyncio.Queue()
        self._pages.add(page)
        try:
            yield _message({"number": self._session.last_number, "run": self._session.samples.run})
            renewed = -HEARTBEAT
            while True:
                if time.monotonic() - renewed >= HEARTBEAT:
                    await asyncio.to_thread(self._session.still_here, reviewer)
                    renewed = time.monotonic()
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
