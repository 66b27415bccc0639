"""Servers of `errata review` for tests, and a client for them. As a script: restarts a server in milliseconds."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pandas as pd

from errata.core.rates import NoiseRate
from errata.dynamics.store import Dynamics
from errata.finding.found import Found

CLASSES = ("cat", "dog", "owl")
PATIENCE = 120  # seconds until a wait fails; a busy machine answers late


def made_up_result(folder, samples=60, classes=CLASSES, data=None):
    """A folder as `errata find` writes it: the sample at place i has the label i mod K."""
    rng = np.random.default_rng(0)
    labels = np.arange(samples) % len(classes)
    suggested = (labels + 1 + np.arange(samples) // len(classes) % 2) % len(classes)
    names = np.array(classes, dtype=object)
    logits = rng.normal(size=(4, samples, len(classes))).astype(np.float32)
    ids = [f"s{place}" for place in range(samples)]
    features = rng.normal(size=(samples, 3)).astype(np.float32)
    dynamics = Dynamics.from_arrays(logits, names[labels], ids=ids, classes=classes, features=features)
    ranking = pd.DataFrame(
        {
            "id": ids,
            "label": names[labels],
            "suggested": names[suggested],
            "score": np.linspace(4, -4, samples),
            "rank": np.arange(1, samples + 1),
            "label_probability": 0.2,
            "suggested_probability": 0.7,
            "p_wrong": np.linspace(0.95, 0.05, samples),
            "agree": 0.5,
            "mean_loss": 1.0,
        }
    )
    found = Found(
        ranking=ranking,
        dynamics=dynamics,
        estimate=NoiseRate(1 / 3, 0.1, 0.5, 0.95, "Made up."),
        conflicts=pd.DataFrame({"group": [], "id": [], "label": []}),
        summary={
            "method": "MeanProb-LM",
            "model": "mlp",
            "unit": "epoch",
            "version": "1.2.3",
            "epochs_used": 4,
            "samples": samples,
            "classes": len(classes),
            "kind": "dynamics",
            "held_out_loss": 0.1,
            "estimate": {"rate": 1 / 3, "low": 0.1, "high": 0.5, "confidence": 0.95, "how": "Made up."},
        },
        data=data,
    )
    return found.save(folder)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Client:
    """The requests of one reviewer's page."""

    def __init__(self, link):
        self.link = urlsplit(link)
        self._connection = None

    def send(self, method, path, body=None, **headers):
        """The status and the answer, JSON decoded. None as a header leaves it out."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection(self.link.netloc, timeout=PATIENCE)
        sent = {"Origin": f"http://{self.link.netloc}", "Content-Type": "application/json"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            self._connection.request(
                method, self.link.path + path, content, {k: v for k, v in sent.items() if v is not None}
            )
            answer = self._connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            self.close()
            raise
        kind = answer.headers.get("content-type", "")
        return answer.status, json.loads(text) if kind.startswith("application/json") else text.decode()

    def close(self):
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def state(self):
        return self.send("GET", "/state")[1]

    def judge(self, *events):
        return self.send("POST", "/verdicts", {"events": list(events)})


def verdict(place, verdict="keep", key=None, classes=CLASSES, **more):
    """An event about the sample at a place of `made_up_result`."""
    label, suggested = place % len(classes), (place % len(classes) + 1 + place // len(classes) % 2) % len(classes)
    event = {
        "key": key or uuid.uuid4().hex,
        "sample": f"s{place}",
        "label": classes[label],
        "suggestion": classes[suggested],
        "rank": place + 1,
        "verdict": verdict,
        "new_label": classes[suggested] if verdict == "accept" else "",
        "seconds": 1.5,
    }
    return event | more


class ReviewServer:
    """`errata review` in a process of its own."""

    def __init__(self, folder, *options, reviewers=("ana", "ben"), port=None, environment=None):
        self.port = port or free_port()
        names = [word for name in reviewers for word in ("--reviewer", name)]
        command = [sys.executable, "-m", "errata", "review", folder, *names, "--port", self.port, *options]
        self.process = subprocess.Popen(
            list(map(str, command)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
        )
        self.links, self.output = {}, ""
        for line in self.process.stdout:
            self.output += line
            name, _, link = line.strip().partition(": ")
            if link.startswith("http"):
                self.links[name] = link
            if line.startswith("Each link"):
                break
        else:
            self.process.wait()

    def client(self, name="ana"):
        return Client(self.links[name])

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()
        self.process.stdout.close()


class QuickServer:
    """Forks servers from a process that has read the results, so that a restart after a kill takes milliseconds."""

    def __init__(self, folder, database, reviewers, port):
        self.port = port
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(folder), str(database), str(port), *reviewers],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        self.links = json.loads(self.process.stdout.readline())

    def start(self):
        """Start a server; returns its process id. Requests are answered shortly after."""
        self.process.stdin.write("start\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def kill(self, pid):
        os.kill(pid, signal.SIGKILL)
        assert self.process.stdout.readline() == "ended\n"

    def close(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        self.process.stdout.close()


def _fork_servers(folder, database, port, *reviewers):
    from errata.review.server.database import ReviewDatabase
    from errata.review.server.review_samples import ReviewSamples
    from errata.review.server.review_session import ReviewSession
    from errata.review.server.routes import ReviewRoutes  # noqa: F401  # imported once, before the forks
    from errata.review.server.serving import ServerAddress, links, listen, serve

    samples = ReviewSamples(Path(folder))
    first = ReviewDatabase(database)
    tokens = first.tokens(list(reviewers))
    first.close()
    address = ServerAddress("127.0.0.1", int(port))
    with listen(address) as listener:
        print(json.dumps(links(address, listener, tokens)), flush=True)
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            storage = _opened(ReviewDatabase, database)
            with listen(address) as listener:
                serve(ReviewSession(samples, storage, list(reviewers), 0.2), tokens, address, listener)
            os._exit(0)
        print(child, flush=True)
        os.waitpid(child, 0)
        print("ended", flush=True)


def _opened(database_class, address):
    """The database; PostgreSQL may need a moment to see that the killed server is gone."""
    from errata.errors import StoreError

    patience = time.monotonic() + PATIENCE
    while time.monotonic() < patience:
        with contextlib.suppress(StoreError):
            return database_class(address)
        time.sleep(0.05)
    return database_class(address)


if __name__ == "__main__":
    _fork_servers(*sys.argv[1:])
