"""Ctrl-C between two steps, not in the middle of one."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interruptible:
    """Within it Ctrl-C waits for the next `check`, which raises KeyboardInterrupt; a second one does not wait."""

    def __init__(self) -> None:
        self._asked = False
        self._before: Any = None

    def __enter__(self) -> "Interruptible":
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def check(self) -> None:
        """Stop here if Ctrl-C was pressed."""
        if self._asked:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
