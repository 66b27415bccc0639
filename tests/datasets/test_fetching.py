"""Downloads from a local server: verified, unpacked, and nothing left behind after a failure."""

import contextlib
import io
import socket
import tarfile
import threading
import zipfile
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from errata.datasets import fetching, load, registry
from errata.datasets.fetching import fetch
from errata.datasets.sets import satellite
from errata.datasets.spec import Dataset, ParsedArrays, PreparedArrays, Source
from errata.errors import DataError, InputError, MissingDataError, StoreError
from errata.readers.hashing import array_hash
from errata.version import installed_version

NAME = "synthetic"
TABLE = np.random.default_rng(0).integers(0, 1000, (4_000, 3))
CSV = "".join(f"{a},{b},{c}\n" for a, b, c in TABLE).encode()
OTHER = CSV.replace(b"7", b"8")
ALL = None


@dataclass
class Page:
    """The response of the server at an address. `cuts` and `statuses` hold one value per request."""

    body: bytes = b""
    cuts: list[int | None] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    location: str | None = None


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append((self.path, self.headers["User-Agent"]))
        page = self.server.pages.get(self.path)
        status = page.statuses.pop(0) if page and page.statuses else 200
        if page is None or status != 200:
            self.send_error(404 if page is None else status)
            return
        self.send_response(302 if page.location else 200)
        self.send_header("Location", page.location) if page.location else None
        self.send_header("Content-Length", str(len(page.body)))
        self.end_headers()
        cut = page.cuts.pop(0) if page.cuts else ALL
        with contextlib.suppress(ConnectionError):
            self.wfile.write(page.body if cut is ALL else page.body[:cut])

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.pages, running.requests = {}, []
        running.url = f"http://127.0.0.1:{running.server_port}"
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def no_pauses_and_no_proxy(monkeypatch):
    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)
    monkeypatch.setenv("no_proxy", "*")


def read_csv(*paths):
    try:
        values = [np.array([line.split(b",") for line in path.read_bytes().splitlines()], np.int64) for path in paths]
    except ValueError as error:
        raise DataError(f"{paths[0]} cannot be read") from error
    return ParsedArrays({"table": np.concatenate(values)})


PLAIN = (Source(("data.csv",), read_csv),)


def synthetic(*downloads, sources=PLAIN, **others):
    return Dataset(
        name=others.pop("name", NAME),
        title="Synthetic",
        source="https://example.org/synthetic",
        licence="none",
        bibtex="",
        kind="table",
        classes=("a", "b"),
        sources=sources,
        prepare=lambda parsed: PreparedArrays(parsed.arrays),
        settings=(),
        downloads=downloads,
        hashes={"table": array_hash(TABLE)},
        **others,
    )


def plain(server, page):
    """A dataset of one file."""
    server.pages["/data.csv"] = page
    return synthetic(f"{server.url}/data.csv")


def archived(server, page):
    """A dataset of one archive."""
    server.pages["/data.zip"] = page
    return synthetic(f"{server.url}/data.zip")


def zipped(**files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name.replace("_", "."), content)
    return buffer.getvalue()


def tarred(name, content):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def names(folder):
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


def assert_fetched(dataset, folder):
    """The file is there, complete, and nothing else is."""
    assert fetch(dataset, folder) == [folder / NAME / "data.csv"]
    assert (folder / NAME / "data.csv").read_bytes() == CSV
    assert names(folder / NAME) == {"data.csv"}
    assert names(folder) == {NAME}


def error_of(dataset, folder, error=DataError):
    """The one-line message of a failed download, which leaves nothing behind."""
    before = names(folder / NAME)
    with pytest.raises(error) as caught:
        fetch(dataset, folder)
    assert "\n" not in str(caught.value)
    assert ".fetching-" not in str(caught.value)
    assert names(folder / NAME) == before
    assert names(folder) <= {NAME}
    return str(caught.value)


def test_a_file_is_downloaded(server, tmp_path):
    assert_fetched(plain(server, Page(CSV)), tmp_path)
    assert server.requests == [("/data.csv", f"errata/{installed_version()}")]


def test_an_archive_is_unpacked_and_deleted(server, tmp_path):
    assert_fetched(archived(server, Page(zipped(data_csv=CSV))), tmp_path / "zip")
    server.pages["/data.tar.gz"] = Page(tarred("data.csv", CSV))
    assert_fetched(synthetic(f"{server.url}/data.tar.gz"), tmp_path / "tar")


def test_several_files_and_archives(server, tmp_path):
    middle = CSV.index(b"\n", len(CSV) // 2) + 1
    server.pages |= {"/a.csv": Page(CSV[:middle]), "/b.zip": Page(zipped(b_csv=CSV[middle:], notes_txt=b"notes"))}
    downloads = f"{server.url}/a.csv", f"{server.url}/b.zip"
    dataset = synthetic(*downloads, sources=(Source(("a.csv", "b.csv"), read_csv),))
    assert fetch(dataset, tmp_path) == [tmp_path / NAME / "a.csv", tmp_path / NAME / "b.csv"]
    assert names(tmp_path / NAME) == {"a.csv", "b.csv", "notes.txt"}


def test_redirects_are_followed(server, tmp_path):
    server.pages |= {"/moved/data.csv": Page(location="/data.csv"), "/data.csv": Page(CSV)}
    assert_fetched(synthetic(f"{server.url}/moved/data.csv"), tmp_path)


def test_a_real_archive_is_unpacked_and_verified(server, tmp_path, real_data):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("sat.trn", "sat.tst"):
            archive.write(real_data / "satellite" / name, name)
    server.pages["/sat.zip"] = Page(buffer.getvalue())
    paths = fetch(replace(satellite.DATASET, downloads=(f"{server.url}/sat.zip",)), tmp_path)
    assert paths == [tmp_path / "satellite" / name for name in ("sat.trn", "sat.tst")]
    assert load("satellite", tmp_path).complete


def test_the_progress_bar_has_the_size_of_the_file(server, tmp_path):
    class Bar:
        updates, total = 0, 0

        def update(self, size):
            self.updates += size

        def reset(self):
            self.updates = 0

        def close(self):
            pass

    bars = {}
    fetch(plain(server, Page(CSV)), tmp_path, lambda file: bars.setdefault(file, Bar()))
    assert (bars["data.csv"].total, bars["data.csv"].updates) == (len(CSV), len(CSV))


@pytest.mark.parametrize("page", [Page(CSV, statuses=[503, 500]), Page(CSV, cuts=[100, 2_000])])
def test_a_failed_request_is_repeated(server, tmp_path, page):
    assert_fetched(plain(server, page), tmp_path)
    assert len(server.requests) == 3


@pytest.mark.parametrize("page", [Page(CSV, statuses=[404] * 9), Page(CSV, cuts=[100] * 9)])
@pytest.mark.parametrize("dataset_of", [plain, archived])
def test_a_download_that_keeps_failing_is_an_error(server, tmp_path, page, dataset_of):
    message = error_of(dataset_of(server, replace(page, cuts=[*page.cuts], statuses=[*page.statuses])), tmp_path)
    assert message.startswith(f"{server.url}/data.")
    assert "cannot be downloaded" in message
    assert len(server.requests) == 1 + fetching.RETRIES


def test_a_server_that_does_not_answer_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(fetching, "TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/data.csv"
        assert error_of(synthetic(url), tmp_path).startswith(f"{url} cannot be downloaded")
    assert "cannot be downloaded" in error_of(synthetic(url), tmp_path)  # nobody listens


def test_existing_files_are_not_downloaded(server, tmp_path):
    dataset = plain(server, Page(CSV))
    for folder in (tmp_path / "own" / NAME, tmp_path / "shared"):
        folder.mkdir(parents=True)
        (folder / "data.csv").write_bytes(CSV)
    assert fetch(dataset, tmp_path / "own") == [tmp_path / "own" / NAME / "data.csv"]
    assert fetch(dataset, tmp_path / "shared") == [tmp_path / "shared" / "data.csv"]
    assert server.requests == []


def test_an_existing_file_with_other_content_is_not_overwritten(server, tmp_path):
    (tmp_path / NAME).mkdir()
    (tmp_path / NAME / "data.csv").write_bytes(OTHER)
    message = error_of(plain(server, Page(CSV)), tmp_path)
    assert "data.csv is not the official synthetic" in message
    assert "Move the file away" in message
    assert (tmp_path / NAME / "data.csv").read_bytes() == OTHER
    assert server.requests == []


def test_partial_data_is_replaced_or_completed(server, tmp_path):
    def read_any(path):
        parsed = read_csv(path)
        return replace(parsed, complete=array_hash(parsed.arrays["table"]) == array_hash(TABLE))

    sources = (Source(("data.csv",), read_any), Source(("subset.csv",), read_csv, complete=False))
    server.pages["/data.csv"] = Page(CSV)
    dataset = synthetic(f"{server.url}/data.csv", sources=sources)
    for name in ("data.csv", "subset.csv"):
        (tmp_path / name / NAME).mkdir(parents=True)
        (tmp_path / name / NAME / name).write_bytes(OTHER)
        assert fetch(dataset, tmp_path / name) == [tmp_path / name / NAME / "data.csv"]
        assert names(tmp_path / name / NAME) == {"data.csv", name}
    server.pages["/data.csv"] = Page(OTHER)
    assert "is not the complete official data" in error_of(dataset, tmp_path / "elsewhere")


def test_the_dataset_with_the_inputs_is_downloaded_first(server, tmp_path, monkeypatch):
    server.pages |= {"/base/data.csv": Page(CSV), "/data.csv": Page(CSV)}
    base = synthetic(f"{server.url}/base/data.csv", name="base")
    monkeypatch.setattr(registry, "datasets", lambda: {"base": base})
    fetch(synthetic(f"{server.url}/data.csv", inputs_from="base"), tmp_path)
    assert names(tmp_path) == {"base", NAME}
    assert [path for path, _ in server.requests] == ["/base/data.csv", "/data.csv"]


def test_a_dataset_without_downloads_comes_with_instructions(tmp_path):
    message = error_of(synthetic(by_hand="Put data.csv into {folder}."), tmp_path, MissingDataError)
    assert message.startswith("The official synthetic is not in")
    assert f"Put data.csv into {tmp_path / NAME}" in message


def test_downloads_need_pooch(server, tmp_path, monkeypatch):
    def missing(module, package, extra, purpose):
        raise InputError(f"{purpose} needs {package}: errata[{extra}]")

    monkeypatch.setattr(fetching, "require", missing)
    message = error_of(plain(server, Page(CSV)), tmp_path, InputError)
    assert message == "downloading synthetic needs pooch: errata[data]"


@pytest.mark.parametrize("body", [OTHER, b"", b"<!DOCTYPE html><html>Please log in</html>", b"garbage " * 999])
@pytest.mark.parametrize("dataset_of", [plain, archived])
def test_other_content_is_refused_and_a_new_download_works(server, tmp_path, dataset_of, body):
    (tmp_path / NAME).mkdir()
    (tmp_path / NAME / "notes.txt").write_bytes(b"mine")
    body = zipped(data_csv=OTHER, notes_txt=b"theirs") if body == OTHER and dataset_of is archived else body
    message = error_of(dataset_of(server, Page(body)), tmp_path)
    assert message.startswith("The download ")
    assert (tmp_path / NAME / "notes.txt").read_bytes() == b"mine"
    (tmp_path / NAME / "notes.txt").unlink()
    assert_fetched(dataset_of(server, Page(CSV if dataset_of is plain else zipped(data_csv=CSV))), tmp_path)


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_a_truncated_archive_is_refused(server, tmp_path, share):
    body = tarred("data.csv", CSV)
    server.pages["/data.tar.gz"] = Page(body[: int(share * len(body))])
    dataset = synthetic(f"{server.url}/data.tar.gz")
    assert "data.tar.gz is not a complete archive" in error_of(dataset, tmp_path)


def test_an_archive_without_the_file_is_refused(server, tmp_path):
    message = error_of(archived(server, Page(zipped(other_csv=CSV))), tmp_path)
    assert message == "The download does not contain data.csv"


def test_an_archive_cannot_write_outside_of_its_folder(server, tmp_path):
    folder = tmp_path / "deep" / "folder"
    error_of(archived(server, Page(zipped(data_csv=CSV).replace(b"data.csv", b"../a.csv"))), folder)
    server.pages["/data.tar.gz"] = Page(tarred("../a.csv", CSV))
    message = error_of(synthetic(f"{server.url}/data.tar.gz"), folder)
    assert "data.tar.gz is not a complete archive" in message
    assert not list(tmp_path.rglob("a.csv"))


def test_a_file_in_the_place_of_the_folder_is_an_error(server, tmp_path):
    (tmp_path / NAME).write_bytes(b"")
    assert error_of(plain(server, Page(CSV)), tmp_path, StoreError).startswith("synthetic cannot be downloaded to")
