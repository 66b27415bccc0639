"""Shards in a real S3 server (moto), behind a proxy that truncates, fails and delays reads."""

import http.client
import json
import re
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import errata
from errata.cli.app import app
from errata.core.methods import parse
from errata.datasets.registry import setting
from errata.dynamics.places import Place
from errata.dynamics.scoring import score
from errata.dynamics.sharded import score_shards
from errata.dynamics.shards import write_shard
from errata.dynamics.store import Dynamics
from errata.errors import StoreError

s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed")
moto_server = pytest.importorskip("moto.server", reason="moto[server] is not installed")

DIGITS = "digits-symmetric-20"
RNG = np.random.default_rng(0)
LABELS, LOGITS = RNG.integers(0, 3, 300), RNG.normal(size=(3, 300, 3))
WHOLE = score(Dynamics.from_arrays(LOGITS, LABELS), "Unmixed-MeanProb-LM")


class FaultyProxy(BaseHTTPRequestHandler):
    """Forwards requests. If `faults`, the first reads of an object are truncated, then fail, then are slow.

    always: part of the path of objects whose reads are always truncated, or whose writes always fail.
    """

    protocol_version = "HTTP/1.1"
    target: int
    faults = False
    reads: ClassVar[dict[str, int]] = {}
    always = ""

    def forward(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        stays_faulty = bool(self.always) and self.always in self.path
        if stays_faulty and self.command in ("PUT", "POST"):
            self.send_response(403)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
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
        if stays_faulty and self.command == "GET":
            sent = data[: len(data) // 2]
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
            part = Dynamics.from_arrays(LOGITS[:, rows], LABELS[rows], ids=np.arange(300)[rows])
            write_shard("s3://bucket/run", f"{number}", part, run_id="r")
        yield environment
    proxy.shutdown()
    moto.stop()


def test_the_python_of_the_page_runs(store):
    """docs/scale.md: the second block writes a shard, and the first one scores the run."""
    page = (Path(__file__).parents[2] / "docs" / "scale.md").read_text(encoding="utf-8")
    scored, written = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    s3fs.S3FileSystem().mkdir("page")
    names = {"errata": errata, "logits": LOGITS, "labels": LABELS, "ids": range(300)}
    names["names_of_all_shards"] = ["part-00007"]
    exec(written.replace("s3://bucket/", "s3://page/"), names)
    exec(scored.replace("s3://bucket/", "s3://page/"), names)
    assert names["run"].samples == 300
    assert score(names["run"], "Unmixed-MeanProb-LM").tobytes() == WHOLE.tobytes()


RANK = """
import numpy as np, torch, torch.distributed as dist
from errata.integrations import DistributedRecorder
dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
rec = DistributedRecorder("s3://bucket/ranks", labels=np.arange(13) % 4, num_classes=4, quiet=True)
for epoch in range(3):
    for ids in torch.arange(rank, 13, ranks).split(3):
        rec.update(ids, torch.sin(ids[:, None] + epoch + torch.arange(4)))
    rec.end_epoch()
assert rec.finish().epochs == 3
"""


def test_several_ranks_write_their_shards_to_the_store(store, run_script, tmp_path):
    (tmp_path / "train.py").write_text(RANK, encoding="utf-8")
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    run_script(tmp_path / "train.py", launcher=torchrun)
    run = Dynamics.open("s3://bucket/ranks")
    assert [shard.name for shard in run.shards] == ["part-00000", "part-00001"]
    samples, epochs = np.arange(13)[None, :, None], np.arange(3)[:, None, None]
    np.testing.assert_allclose(run.in_memory().logits, np.sin(samples + epochs + np.arange(4)), atol=1e-6)
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


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


def test_a_cluster_scores_shards_in_the_store_and_leaves_no_files_there(store, tmp_path):
    """Neighbours are searched too, whose files are in the store meanwhile."""
    import ray
    from ray.cluster_utils import Cluster

    store.setenv("PYTHONPATH", str(Path(errata.__file__).parents[1]))
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "object_store_memory": 100 << 20, "include_dashboard": False},
    )
    points = RNG.normal(size=(300, 5))
    for number in range(3):
        rows = slice(100 * number, 100 * number + 100)
        ids = np.arange(300)[rows]
        part = Dynamics.from_arrays(LOGITS[:, rows], LABELS[rows], ids=ids, features=points[rows])
        write_shard("s3://bucket/points", f"{number}", part, run_id="r")
    before = Place("s3://bucket/points").files()
    names, out = ("kNN-MeanProb-LM", "CTRL-CE"), tmp_path / "scores.parquet"
    command = ["score", "s3://bucket/points", "--out", str(out), "--ray", cluster.address]
    result = CliRunner().invoke(app, [*command, *(word for name in names for word in ("--method", name))])
    ray.shutdown()
    cluster.shutdown()
    assert result.exit_code == 0, (result.output, result.exception)
    assert "kNN-MeanProb-LM: 100.0% of the nearest neighbours were found" in result.output
    whole = Dynamics.from_arrays(LOGITS, LABELS, features=points)
    for name in names:
        assert pd.read_parquet(out)[name].to_numpy().tobytes() == score(whole, name).tobytes()
    assert Place("s3://bucket/points").files() == before


def test_a_place_that_cannot_take_the_files_of_neighbours_is_refused_before_shards_are_read(store, monkeypatch):
    for number in range(2):
        rows = slice(100 * number, 100 * number + 100)
        points = RNG.normal(size=(100, 5))
        part = Dynamics.from_arrays(LOGITS[:, rows], LABELS[rows], ids=np.arange(300)[rows], features=points)
        write_shard("s3://bucket/read-only", f"{number}", part, run_id="r")
    run = Dynamics.open("s3://bucket/read-only")
    monkeypatch.setattr(FaultyProxy, "reads", {})
    monkeypatch.setattr(FaultyProxy, "faults", True)  # counts reads
    monkeypatch.setattr(FaultyProxy, "always", "/read-only/neighbours")
    scored = score_shards(run, [parse("kNN-MeanProb-LM")], files=Place("s3://bucket/read-only/neighbours"))
    with pytest.raises(StoreError, match=r"read-only/neighbours/.* cannot be written: access is denied"):
        next(scored)
    assert FaultyProxy.reads == {}


def test_a_server_that_does_not_answer_is_named():
    with pytest.raises(StoreError, match=r"^http://127.0.0.1:1/run cannot be read: .*127\.0\.0\.1"):
        Dynamics.open("http://127.0.0.1:1/run")


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("s3://nosuch/out/scores.parquet", "cannot be written: the bucket 'nosuch' does not exist"),
        ("s3://bucket/out/scores.txt", "s3://bucket/out/scores.txt must end in .csv or .parquet"),
    ],
)
def test_a_place_that_cannot_take_the_result_is_refused_before_shards_are_read(store, monkeypatch, out, message):
    monkeypatch.setattr(FaultyProxy, "reads", {})
    monkeypatch.setattr(FaultyProxy, "faults", True)  # counts reads
    result = CliRunner().invoke(app, ["score", "s3://bucket/run", "--method", "MeanProb-LM", "--out", out])
    assert message in str(result.exception)
    assert FaultyProxy.reads == {}


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
    s3fs.S3FileSystem.clear_instance_cache()


def test_the_benchmark_writes_its_results_to_the_store_and_resumes(store, monkeypatch, tmp_path):
    files = s3fs.S3FileSystem()
    recipe = replace(setting(DIGITS).recipe, epochs=3)
    recipe.save(tmp_path / "recipe.json")
    files.put_file(str(tmp_path / "recipe.json"), f"bucket/results/recipes/{DIGITS}.json")
    files.pipe_file(f"bucket/results/cells/{DIGITS}/in-sample-seed0.failed.json", b'{"reason": "earlier"}')
    monkeypatch.chdir(tmp_path)
    arguments = ["bench", "run", "--setting", DIGITS, "--gathering", "in-sample", "--seeds", "1", "--out"]
    for out, printed in (("s3://bucket/results", "1 cells done"), ("s3://bucket/results", "1 reused")):
        result = CliRunner().invoke(app, [*arguments, out])
        assert printed in result.output, (result.output, result.exception)
    files.invalidate_cache()
    names = sorted(path.rpartition("/")[2] for path in files.ls(f"bucket/results/cells/{DIGITS}"))
    assert names == [f"in-sample-seed0{kind}" for kind in (".parquet", ".ranks.parquet", ".scores.parquet")]
    with files.open(f"bucket/results/cells/{DIGITS}/in-sample-seed0.parquet") as file:
        assert json.loads(pd.read_parquet(file)["parameters"][0])["epochs"] == 3
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.json"]
    result = CliRunner().invoke(app, [*arguments, "s3://nosuch/results"])
    assert "the bucket 'nosuch' does not exist" in str(result.exception)


def test_reads_that_stay_truncated_end_in_a_sentence_and_no_result(store, monkeypatch):
    monkeypatch.setattr(FaultyProxy, "always", "/shards/1/logits.npy")
    out = "s3://bucket/out/none.parquet"
    result = CliRunner().invoke(app, ["score", "s3://bucket/run", "--method", "Unmixed-MeanProb-LM", "--out", out])
    assert isinstance(result.exception, StoreError)
    assert "s3://bucket/run/shards/1/logits.npy cannot be read: " in str(result.exception)
    files = s3fs.S3FileSystem()
    files.invalidate_cache()
    assert not files.exists("bucket/out/none.parquet")


def test_a_result_that_cannot_be_written_leaves_the_old_one(store, monkeypatch):
    out = "s3://bucket/out/kept.parquet"
    arguments = ["score", "s3://bucket/run", "--out", out, "--method"]
    assert CliRunner().invoke(app, [*arguments, "MeanProb-LM"]).exit_code == 0
    monkeypatch.setattr(FaultyProxy, "always", "/out/kept.parquet")
    result = CliRunner().invoke(app, [*arguments, "Last-LM"])
    assert isinstance(result.exception, StoreError)
    assert str(result.exception) == f"{out} cannot be written: access is denied; check the credentials"
    monkeypatch.setattr(FaultyProxy, "always", "")
    with s3fs.S3FileSystem().open("bucket/out/kept.parquet") as file:
        assert list(pd.read_parquet(file)) == ["id", "MeanProb-LM"]


def test_a_shard_whose_writer_was_stopped_is_named(store, monkeypatch):
    """The manifest cannot be written: the shard has all its files, and is none."""
    monkeypatch.setattr(FaultyProxy, "always", "/half/shards/0/manifest.json")
    with pytest.raises(StoreError, match=r"half/shards/0/manifest.json cannot be written"):
        write_shard("s3://bucket/half", "0", Dynamics.from_arrays(3 * np.eye(2), [0, 1]), run_id="r")
    assert s3fs.S3FileSystem().exists("bucket/half/shards/0/logits.npy")
    with pytest.raises(StoreError, match=r"shard '0' of s3://bucket/half has no manifest"):
        Dynamics.open("s3://bucket/half")
