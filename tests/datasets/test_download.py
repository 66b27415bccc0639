import contextlib
import errno
import io
import itertools
import json
import multiprocessing
import os
import re
import signal
import socket
import threading
import zipfile
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from errata.datasets import download as download_module
from errata.datasets import load, registry, transfer
from errata.datasets.download import fetch
from errata.datasets.sets import satellite
from errata.datasets.spec import Content, Dataset, Download, Raw, Source
from errata.datasets.transfer import Arrived
from errata.errors import DataError, MissingDataError, StoreError
from errata.readers.hashing import array_hash
from errata.version import installed_version

NAME = "made_up"
TABLE = np.random.default_rng(0).integers(0, 1000, (40_000, 3))
CSV = "".join(f"{a},{b},{c}\n" for a, b, c in TABLE).encode()
OTHER = CSV.replace(b"7", b"8")
ALL = None


@dataclass
class Page:
    """What the server has at an address, and how it behaves: `cuts` and `statuses` are used up, one a request."""

    body: bytes = b""
    etag: str | None = '"one"'
    modified: str | None = None
    ranges: bool = True
    heeds_if_range: bool = True
    length: bool = True
    chunked: bool = False
    cuts: list[int | None] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    location: str | None = None
    gate: threading.Event | None = None


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    sent: int = 0


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        request = Request(self.path, dict(self.headers))
        self.server.requests.append(request)
        page = self.server.pages.get(self.path)
        status = page.statuses.pop(0) if page and page.statuses else 200
        start = self._start(page) if page else None
        if page is None or status != 200:
            self.send_error(404 if page is None else status)
        elif page.location:
            self.send_response(302)
            self.send_header("Location", page.location)
            self.end_headers()
        elif start is not None and start >= len(page.body):
            self.send_error(416)
        else:
            self._send(page, start, request)

    def _send(self, page, start, request):
        body = page.body[start or 0 :]
        self.send_response(200 if start is None else 206)
        if start is not None:
            self.send_header("Content-Range", f"bytes {start}-{len(page.body) - 1}/{len(page.body)}")
        headers = {"ETag": page.etag, "Last-Modified": page.modified}
        headers["Content-Length"] = str(len(body)) if page.length and not page.chunked else None
        headers["Transfer-Encoding"] = "chunked" if page.chunked else None
        for name, value in headers.items():
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        cut = page.cuts.pop(0) if page.cuts else ALL
        with contextlib.suppress(ConnectionError):  # a client that was stopped
            self._write(page, body if cut is ALL else body[:cut], request, whole=cut is ALL)

    def _start(self, page):
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        current = self.headers.get("If-Range") in (page.etag, page.modified)
        return int(asked[1]) if asked and page.ranges and (current or not page.heeds_if_range) else None

    def _write(self, page, body, request, whole):
        for at in range(0, len(body), 4096):
            block = body[at : at + 4096]
            request.sent += len(block)  # before the client can have the last of it
            self.wfile.write(b"%x\r\n%s\r\n" % (len(block), block) if page.chunked else block)
        if page.chunked and whole:
            self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()
        if page.gate:
            page.gate.wait(20)

    def log_message(self, *_):
        pass


class ChunkedHandler(Handler):
    protocol_version = "HTTP/1.1"


@pytest.fixture
def server(request):
    handler = getattr(request, "param", Handler)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        running.pages, running.requests = {}, []
        running.url = f"http://127.0.0.1:{running.server_port}"
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        for page in running.pages.values():
            if page.gate:
                page.gate.set()
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def in_a_hurry_and_without_proxy(monkeypatch):
    monkeypatch.setattr(transfer, "PAUSE", 0.0)
    monkeypatch.setenv("no_proxy", "*")


def read_csv(paths):
    try:
        values = np.loadtxt(paths[0], delimiter=",", dtype=np.int64)
    except ValueError as error:
        raise DataError(f"{paths[0]} cannot be read") from error
    return Raw({"table": values})


PLAIN = (Source(("data.csv",), read_csv),)


def prepare(raw, base):
    return Content(raw.arrays)


def made_up(*downloads, sources=PLAIN, **others):
    return Dataset(
        name=others.pop("name", NAME),
        title="Made up",
        source="https://example.org/made-up",
        licence="none",
        bibtex="",
        kind="table",
        classes=("a", "b"),
        sources=sources,
        prepare=prepare,
        settings=(),
        downloads=downloads,
        hashes={"table": array_hash(TABLE)},
        **others,
    )


def plain(server, page, path="/data.csv"):
    """A dataset of one file that is used as it comes."""
    server.pages[path] = page
    return made_up(Download(server.url + path, "data.csv"))


def archived(server, page):
    """A dataset of one archive."""
    server.pages["/data.zip"] = page
    return made_up(Download(f"{server.url}/data.zip", "data.zip", unpack=True))


def zipped(**files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            archive.writestr(name.replace("_", "."), content)
    return buffer.getvalue()


def assert_fetched(dataset, folder, progress=lambda arrived: None):
    """It is there, whole, and nothing else is."""
    assert fetch(dataset, folder, progress) == [folder / NAME / "data.csv"]
    assert (folder / NAME / "data.csv").read_bytes() == CSV
    assert visible(folder / NAME) == {"data.csv"}


def visible(folder):
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


def refusal(dataset, folder, error=DataError):
    with pytest.raises(error) as caught:
        fetch(dataset, folder)
    message = str(caught.value)
    assert "\n" not in message
    assert not (folder / NAME / "data.csv").exists()
    return message


def part_of(folder):
    (part,) = folder.rglob("*.part")
    return part


def served(server):
    return [request.sent for request in server.requests]


def interrupt_after(count):
    """Press Ctrl-C once `count` bytes are here."""

    def progress(arrived):
        if arrived.bytes >= count:
            signal.raise_signal(signal.SIGINT)

    return progress


class TestWhole:
    def test_a_file(self, server, tmp_path):
        assert_fetched(plain(server, Page(CSV)), tmp_path)
        assert [request.headers["User-Agent"] for request in server.requests] == [f"errata/{installed_version()}"]

    def test_an_archive_is_unpacked_and_not_kept(self, server, tmp_path):
        assert_fetched(archived(server, Page(zipped(data_csv=CSV))), tmp_path)

    def test_several_files_and_archives(self, server, tmp_path):
        halves = CSV[: CSV.index(b"\n", len(CSV) // 2) + 1], CSV[CSV.index(b"\n", len(CSV) // 2) + 1 :]
        server.pages |= {"/a": Page(halves[0]), "/b": Page(zipped(b_csv=halves[1], notes_txt=b"hello"))}

        def read(paths):
            return Raw({"table": np.concatenate([read_csv([path]).arrays["table"] for path in paths])})

        dataset = made_up(
            Download(f"{server.url}/a", "a.csv"),
            Download(f"{server.url}/b", "b.zip", unpack=True),
            sources=(Source(("a.csv", "b.csv"), read),),
        )
        place = tmp_path / NAME
        assert fetch(dataset, tmp_path) == [place / "a.csv", place / "b.csv"]
        assert visible(place) == {"a.csv", "b.csv", "notes.txt"}

    def test_redirects_are_followed_also_by_what_is_resumed(self, server, tmp_path):
        server.pages |= {"/moved": Page(location="/again"), "/again": Page(location="/data.csv")}
        server.pages["/data.csv"] = Page(CSV, cuts=[10_000])
        assert_fetched(made_up(Download(f"{server.url}/moved", "data.csv")), tmp_path)
        assert sum(served(server)) == len(CSV)

    @pytest.mark.parametrize("server", [ChunkedHandler], indirect=True)
    def test_chunks_without_a_length(self, server, tmp_path):
        assert_fetched(plain(server, Page(CSV, etag=None, chunked=True)), tmp_path)

    @pytest.mark.parametrize("server", [ChunkedHandler], indirect=True)
    def test_chunks_that_break_off(self, server, tmp_path):
        assert_fetched(plain(server, Page(CSV, etag=None, chunked=True, cuts=[9_000])), tmp_path)

    def test_no_length_at_all(self, server, tmp_path):
        assert_fetched(plain(server, Page(CSV, length=False)), tmp_path)

    def test_progress_names_the_file_and_rises_to_its_size(self, server, tmp_path):
        seen = []
        assert_fetched(plain(server, Page(CSV, cuts=[50_000])), tmp_path, seen.append)
        assert {(arrived.name, arrived.total) for arrived in seen} == {("data.csv", len(CSV))}
        counts = [arrived.bytes for arrived in seen]
        assert counts == sorted(counts)
        assert (counts[0], counts[-1]) == (0, len(CSV))

    def test_progress_has_no_total_where_the_server_says_none(self, server, tmp_path):
        seen = []
        assert_fetched(plain(server, Page(CSV, length=False)), tmp_path, seen.append)
        assert seen[-1] == Arrived("data.csv", len(CSV), None)

    def test_an_official_archive_as_its_publisher_packs_it(self, server, tmp_path, real_data):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in ("sat.trn", "sat.tst"):
                archive.write(real_data / "satellite" / name, name)
            archive.writestr("sat.doc", "what it is about")
        server.pages["/sat.zip"] = Page(buffer.getvalue(), cuts=[100_000])
        download = Download(f"{server.url}/sat.zip", "sat.zip", unpack=True)
        paths = fetch(replace(satellite.DATASET, downloads=(download,)), tmp_path)
        assert paths == [tmp_path / "satellite" / name for name in ("sat.trn", "sat.tst")]
        assert load("satellite", tmp_path).complete


class TestThere:
    def test_nothing_is_asked_for_when_the_files_are_there(self, server, tmp_path):
        dataset = plain(server, Page(CSV))
        for place in (tmp_path / "own" / NAME, tmp_path / "above"):  # both are places where files are looked for
            place.mkdir(parents=True)
            (place / "data.csv").write_bytes(CSV)
        assert fetch(dataset, tmp_path / "own") == [tmp_path / "own" / NAME / "data.csv"]
        assert fetch(dataset, tmp_path / "above") == [tmp_path / "above" / "data.csv"]
        assert server.requests == []
        assert {path.name for path in (tmp_path / "own" / NAME).iterdir()} == {"data.csv"}

    def test_a_second_fetch_asks_for_nothing(self, server, tmp_path):
        dataset = plain(server, Page(CSV))
        fetch(dataset, tmp_path)
        server.requests.clear()
        assert_fetched(dataset, tmp_path)
        assert server.requests == []

    def test_what_is_there_and_wrong_is_left_to_its_owner(self, server, tmp_path):
        dataset = plain(server, Page(CSV))
        (tmp_path / NAME).mkdir()
        (tmp_path / NAME / "data.csv").write_bytes(OTHER)
        with pytest.raises(DataError, match=r"data\.csv is not the official made_up.*move it away"):
            fetch(dataset, tmp_path)
        assert (tmp_path / NAME / "data.csv").read_bytes() == OTHER
        assert server.requests == []

    def test_a_subset_does_not_count(self, server, tmp_path):
        server.pages["/data.csv"] = Page(CSV)
        sources = (Source(("data.csv",), read_csv), Source(("subset.csv",), read_csv, complete=False))
        dataset = made_up(Download(f"{server.url}/data.csv", "data.csv"), sources=sources)
        (tmp_path / NAME).mkdir()
        (tmp_path / NAME / "subset.csv").write_bytes(CSV[:1000])
        assert fetch(dataset, tmp_path) == [tmp_path / NAME / "data.csv"]
        assert visible(tmp_path / NAME) == {"data.csv", "subset.csv"}

    def test_a_stand_in_under_the_official_name_is_replaced(self, server, tmp_path):
        def read(paths):
            raw = read_csv(paths)
            return Raw(raw.arrays, complete=array_hash(raw.arrays["table"]) == array_hash(TABLE))

        server.pages["/data.csv"] = Page(CSV)
        dataset = made_up(Download(f"{server.url}/data.csv", "data.csv"), sources=(Source(("data.csv",), read),))
        (tmp_path / NAME).mkdir()
        (tmp_path / NAME / "data.csv").write_bytes(OTHER)
        assert_fetched(dataset, tmp_path)
        server.pages["/data.csv"] = Page(OTHER)
        assert "not the complete official" in refusal(dataset, tmp_path / "elsewhere")

    def test_the_dataset_it_labels_anew_comes_first(self, server, tmp_path, monkeypatch):
        server.pages |= {"/base": Page(CSV), "/new": Page(CSV)}
        base = made_up(Download(f"{server.url}/base", "data.csv"), name="base")
        labels = made_up(Download(f"{server.url}/new", "data.csv"), inputs_from="base")
        monkeypatch.setattr(registry, "datasets", lambda: {"base": base})
        assert_fetched(labels, tmp_path)
        assert (tmp_path / "base" / "data.csv").read_bytes() == CSV
        assert [request.path for request in server.requests] == ["/base", "/new"]

    def test_what_must_be_fetched_by_hand_says_how_and_where(self, tmp_path):
        by_hand = made_up(by_hand="Fill in the form and put data.csv into {folder}.")
        message = refusal(by_hand, tmp_path, MissingDataError)
        assert message.startswith("the official made_up is not in")
        assert f"put data.csv into {tmp_path / NAME}" in message
        assert list(tmp_path.iterdir()) == []


class TestResumed:
    @pytest.mark.parametrize("marks", [{}, {"etag": None, "modified": "Mon, 01 Jan 2024 00:00:00 GMT"}])
    def test_a_cut_brings_only_the_rest(self, server, tmp_path, marks):
        assert_fetched(plain(server, Page(CSV, cuts=[100_000, 50_000], **marks)), tmp_path)
        assert served(server) == [100_000, 50_000, len(CSV) - 150_000]

    def test_ctrl_c_and_then_the_rest(self, server, tmp_path):
        dataset = plain(server, Page(CSV))
        with pytest.raises(KeyboardInterrupt):
            fetch(dataset, tmp_path, interrupt_after(200_000))
        here = part_of(tmp_path).stat().st_size
        assert 200_000 <= here < len(CSV)
        assert not (tmp_path / NAME / "data.csv").exists()
        server.requests.clear()
        assert_fetched(dataset, tmp_path)
        assert [request.headers["Range"] for request in server.requests] == [f"bytes={here}-"]
        assert served(server) == [len(CSV) - here]

    def test_ctrl_c_keeps_the_files_that_are_whole(self, server, tmp_path):
        server.pages |= {"/a": Page(zipped(a_txt=b"first")), "/data.csv": Page(CSV)}
        dataset = made_up(
            Download(f"{server.url}/a", "a.zip", unpack=True), Download(f"{server.url}/data.csv", "data.csv")
        )
        with pytest.raises(KeyboardInterrupt):
            fetch(dataset, tmp_path, interrupt_after(200_000))
        server.requests.clear()
        fetch(dataset, tmp_path)
        assert [request.path for request in server.requests] == ["/data.csv"]
        assert visible(tmp_path / NAME) == {"data.csv", "a.txt"}

    def test_all_bytes_are_here_but_not_yet_renamed(self, server, tmp_path):
        dataset = plain(server, Page(CSV))
        with pytest.raises(KeyboardInterrupt):
            fetch(dataset, tmp_path, interrupt_after(len(CSV)))
        server.requests.clear()
        assert_fetched(dataset, tmp_path)
        assert server.requests == []

    @pytest.mark.parametrize("heeds_if_range", [True, False])
    def test_a_file_that_changed_starts_over(self, server, tmp_path, heeds_if_range):
        dataset = plain(server, Page(OTHER))
        with pytest.raises(KeyboardInterrupt):
            fetch(dataset, tmp_path, interrupt_after(200_000))
        server.pages["/data.csv"] = Page(CSV, etag='"two"', heeds_if_range=heeds_if_range)
        server.requests.clear()
        assert_fetched(dataset, tmp_path)
        assert server.requests[0].headers["If-Range"] == '"one"'
        assert served(server)[-1] == len(CSV)

    def test_a_file_that_became_shorter_starts_over(self, server, tmp_path):
        dataset = plain(server, Page(CSV + b"\n" * 200_000))
        with pytest.raises(KeyboardInterrupt):
            fetch(dataset, tmp_path, interrupt_after(len(CSV) + 1))
        server.pages["/data.csv"] = Page(CSV, etag='"two"', heeds_if_range=False)
        assert_fetched(dataset, tmp_path)

    def test_another_address_starts_over(self, server, tmp_path):
        with pytest.raises(KeyboardInterrupt):
            fetch(plain(server, Page(OTHER)), tmp_path, interrupt_after(200_000))
        assert_fetched(plain(server, Page(CSV), "/newer/data.csv"), tmp_path)

    @pytest.mark.parametrize("page", [{"ranges": False}, {"etag": None}, {"etag": 'W/"weak"'}])
    def test_a_server_without_ranges_or_marks_starts_over(self, server, tmp_path, page):
        assert_fetched(plain(server, Page(CSV, cuts=[100_000], **page)), tmp_path)
        assert served(server) == [100_000, len(CSV)]

    @pytest.mark.parametrize("note", [b"", b"[]", b'{"url": 1}', b"\xff"])
    def test_bytes_whose_note_is_broken_are_not_trusted(self, server, tmp_path, note):
        dataset = plain(server, Page(CSV))
        with pytest.raises(KeyboardInterrupt):
            fetch(dataset, tmp_path, interrupt_after(200_000))
        part = part_of(tmp_path)
        part.write_bytes(b"x" * 200_000)
        part.with_name(f"{part.name}.json").write_bytes(note)
        assert_fetched(dataset, tmp_path)

    def test_any_number_of_cuts_as_long_as_something_comes(self, server, tmp_path):
        assert_fetched(plain(server, Page(CSV, cuts=[30_000] * 10)), tmp_path)

    def test_a_body_that_stays_short_says_how_much_came_and_that_it_goes_on(self, server, tmp_path):
        page = Page(CSV, cuts=[len(CSV) - 1, *[0] * 20])
        message = refusal(plain(server, page), tmp_path)
        assert f"{len(CSV) - 1:,} of {len(CSV):,} bytes of data.csv came" in message
        assert "running it again goes on" in message
        assert len(server.requests) == 1 + transfer.ATTEMPTS
        page.cuts.clear()
        server.requests.clear()
        assert_fetched(plain(server, page), tmp_path)
        assert served(server) == [1]

    def test_a_body_that_stays_short_without_ranges_does_not_promise_to_go_on(self, server, tmp_path):
        page = Page(CSV, etag=None, cuts=[100_000] * 20)
        message = refusal(plain(server, page), tmp_path)
        assert f"100,000 of {len(CSV):,} bytes" in message
        assert "running it again starts over" in message
        assert list(tmp_path.iterdir()) == []


class TestNothingStays:
    """Of a fetch that failed, but for what the next one goes on with."""

    @pytest.mark.parametrize("make", [plain, archived])
    @pytest.mark.parametrize("there", [False, True])
    def test_where_nothing_came(self, server, tmp_path, make, there):
        folder = tmp_path / "new" / "data"
        if there:
            (folder / NAME).mkdir(parents=True)
            (folder / NAME / "notes.txt").write_bytes(b"mine")
        refusal(make(server, Page(CSV, statuses=[404])), folder)
        kept = {"new", "data", NAME, "notes.txt"} if there else set()
        assert {path.name for path in tmp_path.rglob("*")} == kept

    def test_offline(self, tmp_path):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        refusal(made_up(Download(f"http://127.0.0.1:{port}/data.csv", "data.csv")), tmp_path)
        assert list(tmp_path.iterdir()) == []

    def test_what_came_in_part_stays_without_empty_folders(self, server, tmp_path):
        refusal(plain(server, Page(CSV, cuts=[100_000, *[0] * 20])), tmp_path)
        kept = {NAME, download_module.STAGING, "data.csv.part", "data.csv.part.json"}
        assert {path.name for path in tmp_path.rglob("*")} == kept

    def test_what_came_whole_stays(self, server, tmp_path):
        server.pages["/a"] = Page(zipped(a_txt=b"first"))
        downloads = Download(f"{server.url}/a", "a.zip", unpack=True), Download(f"{server.url}/none", "data.csv")
        refusal(made_up(*downloads), tmp_path)
        assert {path.name for path in tmp_path.rglob("*")} == {NAME, download_module.STAGING, "archives", "a.zip"}

    def test_an_empty_file_is_one_short_sentence(self, server, tmp_path):
        for make, name in ((plain, "data.csv"), (archived, "data.zip")):
            message = refusal(make(server, Page(b"")), tmp_path)
            assert message == f"{server.url}/{name} gave an empty file instead of {name}"
        assert list(tmp_path.iterdir()) == []

    def test_garbage_in_place_of_an_archive_is_one_short_sentence(self, server, tmp_path):
        message = refusal(archived(server, Page(b"garbage " * 999)), tmp_path)
        assert len(message) < 150
        assert list(tmp_path.iterdir()) == []

    def test_a_lock_that_its_holder_removed_holds_nothing(self, server, tmp_path, monkeypatch):
        """Opened before the other process removed it, and locked after: a third may hold a new one."""
        lock = download_module._lock

        def replaced(file):
            lock(file)
            (tmp_path / NAME / download_module.LOCK).unlink()

        monkeypatch.setattr(download_module, "_lock", replaced)
        assert refusal(plain(server, Page(CSV)), tmp_path).startswith("another process is fetching made_up")


class TestRefused:
    def test_the_wrong_file_is_removed_and_the_next_fetch_starts_clean(self, server, tmp_path):
        message = refusal(plain(server, Page(OTHER)), tmp_path)
        assert "data.csv is not the official made_up" in message
        assert download_module.STAGING not in message
        assert visible(tmp_path / NAME) == set()
        assert_fetched(plain(server, Page(CSV)), tmp_path)

    def test_the_wrong_archive_does_not_touch_what_is_there(self, server, tmp_path):
        (tmp_path / NAME).mkdir()
        (tmp_path / NAME / "notes.txt").write_bytes(b"mine")
        message = refusal(archived(server, Page(zipped(data_csv=OTHER, notes_txt=b"theirs"))), tmp_path)
        assert "data.csv is not the official made_up" in message
        assert visible(tmp_path / NAME) == {"notes.txt"}
        assert (tmp_path / NAME / "notes.txt").read_bytes() == b"mine"

    def test_an_archive_without_the_file(self, server, tmp_path):
        assert "does not hold data.csv" in refusal(archived(server, Page(zipped(other_csv=CSV))), tmp_path)
        assert visible(tmp_path / NAME) == set()

    def test_an_archive_that_leads_out(self, server, tmp_path):
        content = zipped(data_csv=CSV).replace(b"data.csv", b"../a.csv")
        message = refusal(archived(server, Page(content)), tmp_path)
        assert "data.zip: '../a.csv' would be written outside" in message
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("start", [b"<!DOCTYPE html>", b"\xef\xbb\xbf\n <html lang=en>", b"<?xml?><HTML>"])
    @pytest.mark.parametrize("make", [plain, archived])
    def test_a_web_page_instead_of_the_file(self, server, tmp_path, make, start):
        page = Page(start + b"<body>Please log in</body></html>")
        assert "gave a web page instead of data." in refusal(make(server, page), tmp_path)
        assert list(tmp_path.rglob("*.part*")) == []
        page.body = CSV if make is plain else zipped(data_csv=CSV)
        assert_fetched(make(server, page), tmp_path)

    def test_something_else_instead_of_an_archive(self, server, tmp_path):
        assert "data.zip is not whole, or no archive" in refusal(archived(server, Page(CSV)), tmp_path)
        assert visible(tmp_path / NAME) == set()

    def test_a_cut_that_no_length_betrays(self, server, tmp_path):
        whole = zipped(data_csv=CSV)
        dataset = archived(server, Page(whole, length=False, cuts=[len(whole) // 2]))
        assert "data.zip is not whole" in refusal(dataset, tmp_path)
        assert_fetched(dataset, tmp_path)

    @pytest.mark.parametrize("status", [401, 403, 404, 410])
    def test_what_is_not_there_is_asked_for_once(self, server, tmp_path, status):
        dataset = plain(server, Page(CSV, statuses=[status]))
        assert refusal(dataset, tmp_path).startswith(f"{server.url}/data.csv answered {status} ")
        assert len(server.requests) == 1

    @pytest.mark.parametrize("status", [429, 500, 503])
    def test_a_server_that_is_not_well_is_asked_again(self, server, tmp_path, status):
        assert_fetched(plain(server, Page(CSV, statuses=[status, status])), tmp_path)
        message = refusal(plain(server, Page(CSV, statuses=[status] * 20)), tmp_path / "elsewhere")
        assert message.startswith(f"{server.url}/data.csv answered {status} ")

    def test_redirects_in_a_circle(self, server, tmp_path):
        assert "redirects to nowhere" in refusal(plain(server, Page(location="/data.csv")), tmp_path)

    def test_nobody_listens(self, tmp_path):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        url = f"http://127.0.0.1:{port}/data.csv"
        message = refusal(made_up(Download(url, "data.csv")), tmp_path)
        assert message == f"{url} cannot be reached: {os.strerror(errno.ECONNREFUSED)}"

    def test_no_answer_in_time(self, tmp_path, monkeypatch):
        monkeypatch.setattr(transfer, "TIMEOUT", 0.05)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}/data.csv"
            assert refusal(made_up(Download(url, "data.csv")), tmp_path) == f"{url} cannot be reached: timed out"

    def test_the_middle_stops_coming(self, server, tmp_path, monkeypatch):
        monkeypatch.setattr(transfer, "TIMEOUT", 0.4)
        page = Page(CSV, cuts=[100_000, *[0] * 20], gate=threading.Event())
        assert f"broke off: 100,000 of {len(CSV):,} bytes" in refusal(plain(server, page), tmp_path)


class TestDisk:
    def test_a_full_disk_is_one_sentence(self, server, tmp_path):
        ready = tmp_path / NAME / download_module.STAGING / NAME
        ready.mkdir(parents=True)
        (ready / "data.csv.part").symlink_to("/dev/full")
        message = refusal(plain(server, Page(CSV)), tmp_path, StoreError)
        assert message == f"made_up cannot be fetched into {tmp_path / NAME}: {os.strerror(errno.ENOSPC)}"

    def test_no_room_to_unpack_keeps_what_was_downloaded(self, server, tmp_path, monkeypatch):
        dataset = archived(server, Page(zipped(data_csv=CSV)))
        with monkeypatch.context() as small:
            usage = download_module.shutil.disk_usage(tmp_path)._replace(free=10)
            small.setattr(download_module.shutil, "disk_usage", lambda path: usage)
            assert "the disk has 10 left" in refusal(dataset, tmp_path)
        server.requests.clear()
        assert_fetched(dataset, tmp_path)
        assert server.requests == []

    def test_a_file_in_place_of_the_folder(self, server, tmp_path):
        (tmp_path / NAME).write_bytes(b"")
        with pytest.raises(StoreError, match=r"made_up cannot be fetched into .*made_up: File exists"):
            fetch(plain(server, Page(CSV)), tmp_path)
        assert server.requests == []

    def test_a_folder_that_may_not_be_written(self, server, tmp_path, monkeypatch):
        def forbidden(*_, **__):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

        monkeypatch.setattr(Path, "mkdir", forbidden)
        assert refusal(plain(server, Page(CSV)), tmp_path, StoreError).endswith(": Permission denied")
        assert server.requests == []


class TestTogether:
    def test_a_second_fetch_at_the_same_time_is_refused_and_harms_nothing(self, server, tmp_path):
        dataset = plain(server, Page(CSV, cuts=[100_000], gate=threading.Event()))
        started, errors = threading.Event(), []

        def first():
            try:
                fetch(dataset, tmp_path, lambda arrived: started.set())
            except DataError as error:
                errors.append(error)

        thread = threading.Thread(target=first)
        thread.start()
        assert started.wait(20)
        message = refusal(dataset, tmp_path)
        server.pages["/data.csv"].gate.set()
        thread.join()
        assert message == f"another process is fetching made_up into {tmp_path / NAME}; let it finish"
        assert errors == []
        server.requests.clear()
        assert_fetched(dataset, tmp_path)
        assert server.requests == []

    def test_a_process_that_was_killed_stands_in_nobodys_way(self, server, tmp_path):
        dataset = plain(server, Page(CSV, cuts=[100_000], gate=threading.Event()))
        child = multiprocessing.get_context("fork").Process(target=fetch, args=(dataset, tmp_path))
        child.start()
        for _ in itertools.count():
            parts = list(tmp_path.rglob("*.part"))
            if parts and parts[0].stat().st_size:
                break
            child.join(0.01)
            assert child.is_alive()
        child.kill()
        child.join()
        here = part_of(tmp_path).stat().st_size
        assert 0 < here <= 100_000
        assert json.loads(part_of(tmp_path).with_name("data.csv.part.json").read_text())["total"] == len(CSV)
        server.requests.clear()
        server.pages["/data.csv"].gate.set()
        assert_fetched(dataset, tmp_path)
        assert served(server) == [len(CSV) - here]
