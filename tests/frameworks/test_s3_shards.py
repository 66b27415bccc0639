"""Shards in a real S3 server (moto), behind a proxy that truncates, fails and delays reads."""

import http.client
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from errata.cli.app import app
from errata.dynamics.scoring import score
from errata.dynamics.shards import write_shard
from errata.dynamics.store import Dynamics
from errata.errors import StoreError

s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed")
moto_server = pytest.importorskip("moto.server", reason="moto[server] is not installed")

RNG = np.random.default_rng(0)
LABELS, LOGITS = RNG.integers(0, 3, 300), RNG.normal(size=(3, 300, 3))
WHOLE = score(Dynamics.from_arrays(LOGITS, LABELS), "Unmixed-MeanProb-LM")


class FaultyProxy(BaseHTTPRequestHandler):
    """Forwards requests. If `faults`, the first reads of an object are truncated, then fail, then are slow."""

    protocol_version = "HTTP/1.1"
    target: int
    faults = False
    reads: ClassVar[dict[str, int]] = {}

    def forward(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        connection = http.client.HTTPConnection("127.0.0.1", self.target)
        connection.request(self.command, self.path, body, dict(self.headers))
        answer = connection.getresponse()
        data, status = answer.read(), answer.status
        sent = data
        if self.faults and self.command == "GET" and "/shards/" in self.path and "?" not in self.path:
            count = self.reads[self.path] = self.reads.get(self.path, 0) + 1
            if count == 1:
                sent = data[: len(data) // 2]
            elif count == 2:
                status, data, sent = 503, b"", b""
            elif count == 3:
                time.sleep(0.1)
        self.send_response(status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else len(data)
        self.send_header("Content-Length", str(length))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(sent)
        self.close_connection = True

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = forward  # noqa: N815

    def log_message(self, *arguments):
        """Print nothing."""


@pytest.fixture(scope="module")
def store():
    moto = moto_server.ThreadedMotoServer(port=0)
    moto.start()
    FaultyProxy.target = moto.get_host_and_port()[1]
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), FaultyProxy)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    with pytest.MonkeyPatch.context() as environment:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            environment.setenv(name, "test")
        environment.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.server_port}")
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        environment.setenv("AWS_EC2_METADATA_DISABLED", "true")
        s3fs.S3FileSystem().mkdir("bucket")
        for number in range(3):
            rows = slice(100 * number, 100 * number + 100)
            ids = np.arange(300)[rows]
            write_shard(
                "s3://bucket/run", f"{number}", run_id="r", ids=ids, labels=LABELS[rows], logits=LOGITS[:, rows]
            )
        yield environment
    proxy.shutdown()
    moto.stop()


def test_truncated_failing_and_slow_reads_change_nothing(store, monkeypatch):
    monkeypatch.setattr(FaultyProxy, "faults", True)
    assert score(Dynamics.open("s3://bucket/run"), "Unmixed-MeanProb-LM").tobytes() == WHOLE.tobytes()
    assert min(FaultyProxy.reads.values()) >= 3  # every object failed twice before


def test_the_command_writes_scores_to_the_store(store):
    out = "s3://bucket/out/scores.parquet"
    result = CliRunner().invoke(app, ["score", "s3://bucket/run", "--method", "Unmixed-MeanProb-LM", "--out", out])
    assert result.exit_code == 0, result.output
    with s3fs.S3FileSystem().open("bucket/out/scores.parquet") as file:
        assert pd.read_parquet(file)["Unmixed-MeanProb-LM"].to_numpy().tobytes() == WHOLE.tobytes()


def test_a_missing_bucket_and_missing_credentials_are_named(store, monkeypatch):
    with pytest.raises(StoreError, match="the bucket 'nosuch' does not exist"):
        Dynamics.open("s3://nosuch/run")
    with pytest.raises(StoreError, match="s3://bucket/empty holds no shards"):
        Dynamics.open("s3://bucket/empty")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(StoreError, match="no credentials were found"):
        Dynamics.open("s3://bucket/run")
