import gzip
import io
import os
import random
import shutil
import stat
import tarfile
import zipfile

import pytest

from errata.datasets.archives import unpack
from errata.errors import DataError, StoreError

FILES = {"readme.txt": b"words", "deep/er/numbers.csv": b"1,2\n3,4\n" * 400, "deep/empty": b""}


def zipped(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def tarred(members, mode="w"):
    """Members by name: bytes of a file, or a TarInfo that says what it is."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in members.items():
            info = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            data = b"" if isinstance(content, tarfile.TarInfo) else content
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def tar_link(name, target, kind=tarfile.SYMTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


MAKERS = {
    "zip": zipped,
    "tar": tarred,
    "tar.gz": lambda files: tarred(files, "w:gz"),
    "tar.bz2": lambda files: tarred(files, "w:bz2"),
    "tar.xz": lambda files: tarred(files, "w:xz"),
}
every_kind = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


@pytest.fixture
def place(tmp_path):
    """Archives are put here, and a folder `in` that holds a file is unpacked into."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "readme.txt").write_bytes(b"old")
    (folder / "mine.txt").write_bytes(b"mine")
    return tmp_path


def held(folder):
    """Every file below a folder, with what it holds."""
    paths = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def put(place, content):
    archive = place / "archive"  # a name that says nothing
    archive.write_bytes(content)
    return archive


def assert_refused(place, content, *words, error=DataError):
    """One sentence with those words, and everything as it was before."""
    archive = put(place, content)
    before = held(place)
    folders = {path for path in place.rglob("*") if path.is_dir()}
    with pytest.raises(error) as caught:
        unpack(archive, place / "in")
    message = str(caught.value)
    assert "\n" not in message
    for word in (str(archive), *words):
        assert word in message
    assert held(place) == before
    assert {path for path in place.rglob("*") if path.is_dir()} == folders


@every_kind
def test_files_come_out_and_replace_those_of_the_same_name(place, make):
    paths = unpack(put(place, make(FILES)), place / "in")
    assert sorted(paths) == sorted(place / "in" / name for name in FILES)
    assert held(place / "in") == {**FILES, "mine.txt": b"mine"}
    assert {path.name for path in place.iterdir()} == {"archive", "in"}


@every_kind
def test_the_folder_is_made_where_it_is_not_there(tmp_path, make):
    unpack(put(tmp_path, make(FILES)), tmp_path / "not" / "yet")
    assert held(tmp_path / "not" / "yet") == FILES


@every_kind
def test_a_zip_inside_stays_a_file(place, make):
    inner = zipped({"X.txt": b"1 2 3"})
    unpack(put(place, make({"UCI HAR Dataset.zip": inner})), place / "in")
    assert (place / "in" / "UCI HAR Dataset.zip").read_bytes() == inner


@every_kind
@pytest.mark.parametrize(
    "name", ["../evil", "a/../../evil", "/evil", "C:/evil", "C:evil", "..\\evil", "\\\\host\\share\\evil", "\\evil"]
)
def test_a_name_that_leads_out_is_refused_before_anything_is_written(place, make, name):
    assert_refused(place, make({"first.txt": b"fine", name: b"evil"}), repr(name), "outside")


@pytest.mark.parametrize("target", ["../evil", "/etc/passwd", "deep/../../evil"])
@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE], ids=["soft", "hard"])
def test_a_link_out_of_the_folder_is_refused(place, target, kind):
    assert_refused(place, tarred({"first.txt": b"fine", "l": tar_link("l", target, kind)}), "'l'", "link")


def test_a_file_written_through_a_link_stays_inside(place):
    members = {"d": tar_link("d", ".."), "d/evil": b"evil"}
    assert_refused(place, tarred(members), "'d'", "link")


def test_a_link_to_a_file_of_the_archive_is_kept(place):
    unpack(put(place, tarred({"a/real": b"data", "a/alias": tar_link("a/alias", "real")})), place / "in")
    assert (place / "in" / "a" / "alias").read_bytes() == b"data"


def test_a_device_is_refused(place):
    assert_refused(place, tarred({"fifo": tar_link("fifo", "", tarfile.FIFOTYPE)}), "'fifo'")


def test_a_link_in_a_zip_is_refused(place):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        info = zipfile.ZipInfo("link")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    assert_refused(place, buffer.getvalue(), "'link'")


def test_a_zip_that_declares_more_than_the_disk_holds_is_refused(place):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("bomb", b"small")
        archive.filelist[0].file_size = 1 << 60
    assert_refused(place, buffer.getvalue(), "'bomb'", f"{1 << 60:,} bytes")


@every_kind
def test_an_archive_larger_than_the_room_left_is_refused(place, make, monkeypatch):
    usage = shutil.disk_usage(place)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    assert_refused(place, make(FILES), "'deep/er/numbers.csv'", "1,000 left")


@every_kind
@pytest.mark.parametrize("fraction", [0.0, 0.001, 0.3, 0.6, 0.9])
def test_an_archive_cut_short_is_refused(place, make, fraction):
    content = make({f"{i}.bin": random.Random(i).randbytes(3000) for i in range(8)})
    end = content.rstrip(b"\0")
    assert_refused(place, end[: int(fraction * len(end))], "not")


def test_a_tar_cut_between_two_files_is_refused(place):
    whole = tarred({"a": b"x" * 512, "b": b"y" * 512})
    assert_refused(place, whole[: 2 * 512], "'a'", "breaks off")


def test_a_compressed_tar_without_its_checksum_is_refused(place):
    assert_refused(place, tarred(FILES, "w:gz")[:-8], "not")


PACKED_TABLE = gzip.compress(b"a,b\n1,2\n", mtime=0)  # without the time, which would be part of the test's name


@pytest.mark.parametrize("content", [b"<html>Not found</html>", PACKED_TABLE, b"a,b\n1,2\n" * 999])
def test_what_is_no_archive_is_refused(place, content):
    assert_refused(place, content, "no archive")


@every_kind
def test_changed_or_missing_bytes_are_refused_or_harm_no_checked_content(place, make):
    """Zip and gzip carry checksums: whatever comes out of a damaged one is what went in."""
    whole = make(FILES)
    rng = random.Random(0)
    for _ in range(150):
        damaged = bytearray(whole)
        at = rng.randrange(len(whole))
        if rng.random() < 0.5:
            damaged[at] ^= 1 << rng.randrange(8)
        else:
            del damaged[at : at + rng.randrange(1, 50)]
        out = place / "out"
        try:
            unpack(put(place, bytes(damaged)), out)
        except DataError:
            assert not out.exists()
        else:
            if make is not tarred:
                assert set(held(out).values()) <= set(FILES.values())
            shutil.rmtree(out)
        assert {path.name for path in place.iterdir()} == {"archive", "in"}


@every_kind
@pytest.mark.parametrize("name", ["n" * 300, "first.txt/below"])
def test_a_name_that_no_file_can_have_is_the_fault_of_the_archive(place, make, name):
    assert_refused(place, make({"first.txt": b"fine", name: b"not"}), repr(name))


def test_an_encrypted_zip_is_refused(place):
    content = bytearray(zipped({"secret": b"data"}))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + offset] |= 1
    assert_refused(place, bytes(content), "'secret'")


def test_a_folder_in_the_way_of_a_file_is_named_and_nothing_moves(place):
    (place / "in" / "z.txt").mkdir()
    assert_refused_with_target(place, {"a.txt": b"a", "z.txt": b"z"}, "z.txt")


def test_a_file_in_the_way_of_a_folder_is_named_and_nothing_moves(place):
    assert_refused_with_target(place, {"a.txt": b"a", "readme.txt/z": b"z"}, "readme.txt")


def assert_refused_with_target(place, files, name):
    before = held(place / "in")
    with pytest.raises(StoreError, match=name):
        unpack(put(place, zipped(files)), place / "in")
    assert held(place / "in") == before


def test_an_archive_that_is_not_there_is_named(place):
    with pytest.raises(StoreError, match=r"nowhere.zip cannot be unpacked.*No such file"):
        unpack(place / "nowhere.zip", place / "in")


def test_a_full_disk_is_one_sentence_and_leaves_nothing(place, monkeypatch):
    def full(*_):
        raise OSError(28, os.strerror(28))

    archive = put(place, zipped(FILES))
    before = held(place)
    monkeypatch.setattr(zipfile.ZipFile, "extract", full)
    with pytest.raises(StoreError, match=r"cannot be unpacked into .*: No space left on device"):
        unpack(archive, place / "in")
    assert held(place) == before
