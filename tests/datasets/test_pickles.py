import io
import os
import pickle
import zipfile

import numpy as np
import pytest
import torch

from errata.datasets.pickles import read_pickle, read_torch, unpickle
from errata.errors import DataError


def python_2_pickle():
    """A pickle of Python 2: {'data': uint8 array [[1, 2, 255], [0, 128, 7]], 'labels': [6, 9]}."""
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    kind = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    state = b"(K\x01K\x02K\x03\x86" + kind + b"\x89U\x06" + bytes([1, 2, 255, 0, 128, 7]) + b"tb"
    return b"\x80\x02}(U\x04data" + array + state + b"U\x06labels](K\x06K\x09eu."


def test_a_pickle_of_python_2_is_read():
    content = unpickle(python_2_pickle(), "batch")
    assert content["labels"] == [6, 9]
    assert content["data"].dtype == np.uint8
    np.testing.assert_array_equal(content["data"], [[1, 2, 255], [0, 128, 7]])


@pytest.mark.parametrize("protocol", range(2, 5))
@pytest.mark.parametrize("kind", ["u1", "<i8", ">i4", "<f4", "?"])
def test_arrays_of_any_protocol_type_and_order_are_read(protocol, kind):
    values = np.arange(12).reshape(3, 4).astype(kind)
    written = {b"rows": values, "columns": np.asfortranarray(values), "name": "x", "none": [None, 1.5, b"\xff"]}
    content = unpickle(pickle.dumps(written, protocol=protocol), "file")
    assert list(content) == ["rows", "columns", "name", "none"]
    assert (content["name"], content["none"]) == ("x", [None, 1.5, b"\xff"])
    for name in ("rows", "columns"):
        assert content[name].dtype.newbyteorder("=") == values.dtype.newbyteorder("=")  # numpy 1 swaps bytes itself
        np.testing.assert_array_equal(content[name], values)


def test_a_file_of_torch_save_is_read(tmp_path):
    labels = np.random.default_rng(0).integers(0, 10, 50)
    torch.save({"clean_label": labels, "coarse": [1, 2]}, tmp_path / "labels.pt")
    content = read_torch(tmp_path / "labels.pt")
    np.testing.assert_array_equal(content["clean_label"], labels)
    assert content["coarse"] == [1, 2]


class Attack:
    """Creates a file when it is unpickled."""

    def __init__(self, mark, function):
        self.mark, self.function = str(mark), function

    def __reduce__(self):
        commands = {os.system: f"touch '{self.mark}'", eval: f"open({self.mark!r}, 'w').close()"}
        return self.function, (commands.get(self.function, self.mark),)


def attacks(mark):
    """Pickles that create a file, and the function that each calls."""
    touch = f"touch '{mark}'".encode()
    yield pickle.dumps({"data": Attack(mark, os.system)}), f"{os.system.__module__}.system"
    yield pickle.dumps({"data": Attack(mark, eval)}), "builtins.eval"
    yield pickle.dumps({"data": Attack(mark, eval)}, protocol=2), "__builtin__.eval"
    yield pickle.dumps({Attack(mark, os.mkdir): 1}), f"{os.mkdir.__module__}.mkdir"
    yield b"cos\nsystem\n(S'" + touch.replace(b"'", b"") + b"'\ntR.", "os.system"
    yield b"(S'" + touch.replace(b"'", b"") + b"'\nios\nsystem\n.", "os.system"
    yield b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c" + bytes([len(touch)]) + touch + b"\x85R.", "os.system"


@pytest.mark.parametrize("number", range(7))
def test_a_pickle_cannot_run_code(tmp_path, number):
    mark = tmp_path / "mark"
    attack, name = list(attacks(mark))[number]
    pickle.loads(attack)
    assert mark.exists(), "the attack does not work"
    mark.rmdir() if mark.is_dir() else mark.unlink()

    (tmp_path / "data_batch_1").write_bytes(attack)
    with pytest.raises(DataError, match=rf"data_batch_1 is refused: it calls {name}"):
        read_pickle(tmp_path / "data_batch_1")
    with zipfile.ZipFile(tmp_path / "labels.pt", "w") as archive:
        archive.writestr("archive/data.pkl", attack)
    with pytest.raises(DataError, match=rf"labels\.pt is refused: it calls {name}"):
        read_torch(tmp_path / "labels.pt")
    assert not mark.exists()


@pytest.mark.parametrize(
    "name",
    ["numpy.load", "numpy.memmap", "numpy.ctypeslib.load_library", "numpy.core.multiarray.scalar", "builtins.getattr"],
)
def test_other_functions_of_numpy_are_refused(name):
    module, _, attribute = name.rpartition(".")
    with pytest.raises(DataError, match=f"refused: it calls {name}"):
        unpickle(f"c{module}\n{attribute}\n.".encode(), "file")


def test_a_name_with_many_lines_gives_a_message_of_one_line():
    name = b"os\n" * 500
    pickled = b"\x80\x04X" + len(name).to_bytes(4, "little") + name + b"\x8c\x06system\x93."
    with pytest.raises(DataError, match=r"^file is refused: it calls os, which arrays of numbers do not need$"):
        unpickle(pickled, "file")


@pytest.mark.parametrize(
    ("pickled", "reason"),
    [
        (pickle.dumps({"a": np.zeros(9, dtype="u1")})[:-20], "truncated|exhausted|Ran out"),
        (b"\x80\x02U\x01xQ.", "persistent"),
        (b"", "Ran out of input"),
        (b"<html>not found</html>", "invalid load key"),
    ],
)
def test_an_invalid_pickle_is_refused(pickled, reason):
    with pytest.raises(DataError, match=f"file is not a valid pickle of numbers: .*{reason}"):
        unpickle(pickled, "file")


def test_an_array_with_missing_bytes_is_refused():
    cut = python_2_pickle().replace(b"U\x06" + bytes([1, 2, 255, 0, 128, 7]), b"U\x05" + bytes([1, 2, 255, 0, 128]))
    with pytest.raises(DataError, match="file is not a valid pickle of numbers"):
        unpickle(cut, "file")


def test_a_pickle_without_dictionary_is_refused():
    with pytest.raises(DataError, match="file holds a list, not a dictionary"):
        unpickle(pickle.dumps([1, 2]), "file")


def test_a_file_that_torch_did_not_write_is_refused(tmp_path):
    path = tmp_path / "labels.pt"
    path.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(DataError, match=r"labels\.pt is not a valid torch archive"):
        read_torch(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/version", "3")
    with pytest.raises(DataError, match=r"labels\.pt is not a torch archive: it holds 0 files named data\.pkl"):
        read_torch(path)


def test_a_truncated_file_of_torch_save_is_refused(tmp_path):
    whole = io.BytesIO()
    torch.save({"a": np.arange(1000)}, whole)
    (tmp_path / "labels.pt").write_bytes(whole.getvalue()[:3000])
    with pytest.raises(DataError, match=r"labels\.pt is not a valid torch archive"):
        read_torch(tmp_path / "labels.pt")


def test_tensors_are_not_read(tmp_path):
    torch.save({"a": torch.zeros(3)}, tmp_path / "tensors.pt")
    with pytest.raises(DataError, match=r"tensors\.pt is refused: it calls torch\._utils\._rebuild_tensor_v2"):
        read_torch(tmp_path / "tensors.pt")


def test_a_folder_in_place_of_a_file_is_refused(tmp_path):
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        read_pickle(tmp_path)
