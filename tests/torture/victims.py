"""Run a piece of errata in a forked process, which can be killed at a chosen moment and is stopped when it hangs."""

import contextlib
import os
import re
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The operations before which a process may die. Files are written between them, so that each leaves another state.
OPERATIONS = ("replace", "rename", "unlink", "remove", "rmdir", "fsync", "link", "mkdir", "ftruncate", "truncate")
TIME_LIMIT = 120.0  # seconds after which a process counts as stuck
MEMORY_LIMIT = 8 << 30  # bytes of data that a process may allocate
POLL = 0.005
RECORD = 64  # bytes per logged operation
NUMBERS = re.compile(r"[0-9a-f]{8,}|\d+")  # differ from run to run


@dataclass(frozen=True)
class Outcome:
    """How a process ended.

    code: its exit code, minus the signal that killed it, or None if it was stuck. operations: what it did to files.
    """

    code: int | None
    output: str
    operations: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def killed(self) -> bool:
        """Whether the kill that was asked for took place."""
        return self.code == -signal.SIGKILL

    @property
    def crashed(self) -> bool:
        """Whether it ended with a traceback or a fatal signal."""
        return "Traceback (most recent call last)" in self.output or (
            self.code not in (0, 2, None, -signal.SIGKILL) and not self.reported_failure
        )

    @property
    def reported_failure(self) -> bool:
        """Whether it is a benchmark that listed the cells that failed, with a sentence each."""
        return self.code == 1 and "failed; results are in" in self.last_line

    @property
    def last_line(self) -> str:
        """The last line that it printed: where an error is."""
        lines = [line for line in self.output.splitlines() if line.strip()]
        return lines[-1] if lines else ""


def run_victim(
    work: Callable[[], object],
    folder: Path,
    *,
    kill_before: int | None = None,
    kill_after: float | None = None,
    time_limit: float = TIME_LIMIT,
) -> Outcome:
    """Call `work` in a child process whose working directory is `folder`.

    kill_before: the number of the operation before which it kills itself, counted from 0. kill_after: seconds after
    which it is killed from outside.
    """
    with started(work, folder, kill_before=kill_before) as victim:
        return victim.wait(time_limit, kill_after)


class Victim:
    """A running child process."""

    def __init__(self, process: int, log: Path) -> None:
        self.process, self._log, self._started = process, log, time.monotonic()

    def wait(self, time_limit: float = TIME_LIMIT, kill_after: float | None = None) -> Outcome:
        """Wait for its end; kill it after `kill_after` or `time_limit` seconds."""
        limit = time_limit if kill_after is None else min(kill_after, time_limit)
        while True:
            ended, status = os.waitpid(self.process, os.WNOHANG)
            elapsed = time.monotonic() - self._started
            if ended or elapsed > limit:
                break
            time.sleep(POLL)
        if not ended:
            self.kill()
            _, status = os.waitpid(self.process, 0)
        code: int | None = os.waitstatus_to_exitcode(status)
        if not ended and kill_after is None:
            code = None
        output = self._log.read_text(errors="replace") if self._log.exists() else ""  # killed before it began
        operations = self._log.with_suffix(".operations")
        lines = operations.read_text(errors="replace").splitlines() if operations.exists() else []
        return Outcome(code, output, tuple(line.rstrip() for line in lines), elapsed)

    def kill(self) -> None:
        """Kill it, and the processes that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process, signal.SIGKILL)


@contextlib.contextmanager
def started(work: Callable[[], object], folder: Path, *, kill_before: int | None = None) -> Iterator[Victim]:
    """A child process that calls `work` in `folder`. Its output goes to a log file next to the folder."""
    log = folder.parent / f"{folder.name}.{time.monotonic_ns()}.log"
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process == 0:
        code = 70
        try:
            code = _be_victim(work, folder, log, kill_before)
        finally:
            os._exit(code)
    with contextlib.suppress(OSError):
        os.setpgid(process, process)
    victim = Victim(process, log)
    try:
        yield victim
    finally:
        victim.kill()
        for path in (log, log.with_suffix(".operations")):
            path.unlink(missing_ok=True)


def command(*arguments: str) -> Callable[[], None]:
    """Work that runs the errata command."""

    def work() -> None:
        from errata.cli import main

        sys.argv = ["errata", *arguments]
        main()

    return work


def _be_victim(work: Callable[[], object], folder: Path, log: Path, kill_before: int | None) -> int:
    """The life of the child. Returns its exit code."""
    from errata.errors import ErrataError

    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT, MEMORY_LIMIT))
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdout, sys.stderr = os.fdopen(1, "w", 1, errors="replace"), os.fdopen(2, "w", 1, errors="replace")
    os.chdir(folder)
    _watch_operations(log.with_suffix(".operations"), kill_before)
    try:
        work()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except ErrataError as error:
        print(f"errata: {error}", file=sys.stderr)
        return 2
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def _watch_operations(log: Path, kill_before: int | None) -> None:
    """Log every operation with its file, and kill the process group before number `kill_before`.

    Records have one length, so that processes of one group count together.
    """
    records = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def watched(name: str, operation: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: Any, **options: Any) -> object:
            if kill_before is not None and os.fstat(records).st_size == kill_before * RECORD:
                os.killpg(0, signal.SIGKILL)
            os.write(
                records,
                f"{name} {_file_name(arguments[0])}".encode(errors="replace")[: RECORD - 1].ljust(RECORD - 1) + b"\n",
            )
            return operation(*arguments, **options)

        return call

    for name in OPERATIONS:
        setattr(os, name, watched(name, getattr(os, name)))


def _file_name(file: Any) -> str:
    path = Path(f"/proc/self/fd/{file}").readlink() if isinstance(file, int) else os.fsdecode(file)
    return NUMBERS.sub("#", Path(path).name)
