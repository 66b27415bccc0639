"""`errata review` under load: 20 reviewers, two verdicts per second each, for two minutes, compared with plain SQLite.

Prints the 99th percentile of the time from sending a verdict to its acknowledgement, next to that of a plain commit to
SQLite (write-ahead log, full synchronisation) at the same rate on the same disk, and counts lost and repeated verdicts.
The load average (waiting processes) says how busy the machine was before, with each part.
"""

import argparse
import http.client
import json
import os
import resource
import selectors
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

import errata
from common import Row, print_rows

REVIEWERS, PER_SECOND, SECONDS = 20, 2.0, 120.0
SAMPLES, CLASSES = 5_000, 10
REACH = 0.1  # an acknowledgement may take ten times as long as a plain commit: it also passes HTTP and the checks


def run(seconds: float = SECONDS) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        found, names = _results(Path(folder)), [f"reviewer-{number}" for number in range(REVIEWERS)]
        busy = [os.getloadavg()[0]]
        server, links = _start(found, names)
        opened = threading.Barrier(REVIEWERS)
        listener = threading.Thread(target=_listen, args=(links,), daemon=True)
        listener.start()
        pages = [_Page(link, number, seconds, opened) for number, link in enumerate(links)]
        for page in pages:
            page.start()
        for page in pages:
            page.join()
        server.terminate()
        server.wait()
        listener.join()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        busy.append(os.getloadavg()[0])
        plain = _plain_commits(Path(folder) / "plain.sqlite", seconds)
        busy.append(os.getloadavg()[0])
        with sqlite3.connect(found / "review.sqlite") as database:
            stored = [key for (key,) in database.execute("SELECT key FROM events")]
    sent = [key for page in pages for key in page.acknowledged]
    times = np.array([taken for page in pages for taken in page.times])
    lost, repeated = len(set(sent) - set(stored)), len(stored) - len(set(stored))
    own, peer = np.percentile(times, 99), np.percentile(plain, 99)
    detail = (
        f"{len(sent):,} verdicts, {lost} lost, {repeated} repeated; acknowledged in {1e3 * np.median(times):.1f} ms "
        f"(median), {1e3 * own:.1f} ms (p99); plain commit {1e3 * np.median(plain):.1f} ms, {1e3 * peer:.1f} ms (p99); "
        f"the server used {used.ru_utime + used.ru_stime:.0f} s of a processor; load average "
        f"{', '.join(f'{load:.1f}' for load in busy)}"
    )
    if lost or repeated:
        raise SystemExit(detail)
    work = f"verdicts of {REVIEWERS} reviewers, p99"
    return [Row(work, "commit to SQLite, full sync, p99", float(peer / own), REACH, detail)]


def _results(folder: Path) -> Path:
    """A folder of `errata find` with made-up logits."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, SAMPLES)
    logits = rng.normal(size=(3, SAMPLES, CLASSES)) + 3 * np.eye(CLASSES)[labels]
    errata.find(errata.Dynamics.from_arrays(logits.astype(np.float32), labels), out=folder / "errata-out")
    return folder / "errata-out"


def _start(found: Path, names: list[str]) -> tuple["subprocess.Popen[str]", list[str]]:
    options = [word for name in names for word in ("--reviewer", name)]
    command = [sys.executable, "-m", "errata", "review", str(found), "--port", "0", "--overlap", "10%", *options]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    links: list[str] = []
    assert server.stdout is not None
    for line in server.stdout:
        if ": http" in line:
            links.append(line.strip().partition(": ")[2])
        if line.startswith("Each link"):
            break
    return server, links


def _listen(links: list[str]) -> None:
    """Receive the live updates of all pages, as browsers do, until the server stops."""
    with selectors.DefaultSelector() as streams:
        for link in map(urlsplit, links):
            stream = socket.create_connection((str(link.hostname), int(link.port or 80)))
            stream.sendall(f"GET {link.path}/live HTTP/1.1\r\nHost: {link.netloc}\r\n\r\n".encode())
            streams.register(stream, selectors.EVENT_READ)
        while streams.get_map():
            for key, _ in streams.select():
                stream = key.fileobj
                assert isinstance(stream, socket.socket)
                if not stream.recv(65_536):
                    streams.unregister(stream)
                    stream.close()


class _Page(threading.Thread):
    """Judges the samples of its queue at a steady rate, once all pages are open."""

    def __init__(self, link: str, number: int, seconds: float, opened: threading.Barrier) -> None:
        super().__init__()
        self._opened = opened
        self._link, self._number, self._seconds = urlsplit(link), number, seconds
        self._connection = http.client.HTTPConnection(self._link.netloc, timeout=30)
        self.acknowledged: list[str] = []
        self.times: list[float] = []

    def run(self) -> None:
        state = self._send("GET", "/state")
        page = self._send("GET", "")
        report = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
        queue = state["queue"]
        self._opened.wait()
        start = time.perf_counter() + self._number / REVIEWERS / PER_SECOND
        for count in range(int(self._seconds * PER_SECOND)):
            time.sleep(max(0.0, start + count / PER_SECOND - time.perf_counter()))
            if not queue:
                queue = self._send("POST", "/queue", {})["queue"]
            self._judge(queue.pop(0), report)

    def _judge(self, place: int, report: dict[str, list[int]]) -> None:
        event = {
            "key": uuid.uuid4().hex,
            "sample": report["id"][place],
            "label": report["classes"][report["label"][place]],
            "suggestion": report["classes"][report["suggested"][place]],
            "rank": place + 1,
            "verdict": "keep",
            "seconds": 0.5,
        }
        before = time.perf_counter()
        reply = self._send("POST", "/verdicts", {"events": [event]})
        self.times.append(time.perf_counter() - before)
        self.acknowledged += reply["acknowledged"]

    def _send(self, method: str, path: str, body: object = None) -> "dict[str, list[str]] | str | object":
        headers = {"Origin": f"http://{self._link.netloc}", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body)
        self._connection.request(method, self._link.path + path, content, headers)
        answer = self._connection.getresponse()
        text = answer.read().decode()
        if answer.status != 200:
            raise SystemExit(f"{answer.status}: {text[:200]}")
        return json.loads(text) if answer.headers["content-type"] == "application/json" else text


def _plain_commits(path: Path, seconds: float) -> list[float]:
    """Seconds of each commit of one row, at the same rate of all reviewers together."""
    database = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=FULL"):
        database.execute(f"PRAGMA {pragma}")
    database.execute("CREATE TABLE events (number INTEGER PRIMARY KEY, text TEXT)")
    rate, times = REVIEWERS * PER_SECOND, []
    start = time.perf_counter()
    for count in range(int(seconds * rate)):
        time.sleep(max(0.0, start + count / rate - time.perf_counter()))
        before = time.perf_counter()
        database.execute("INSERT INTO events (text) VALUES (?)", (os.urandom(100).hex(),))
        times.append(time.perf_counter() - before)
    database.close()
    return times


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=SECONDS)
    print_rows(run(arguments.parse_args().seconds))
