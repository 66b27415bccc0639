"""New file types: one file in the package, or an entry point of another package."""

from importlib.metadata import EntryPoint

import pytest

import errata
from errata import discovery
from errata.errors import InputError
from errata.readers import file_types, formats, open_data

READER = """
import pandas as pd

from errata.readers.file_types import TableContents


def read_pipes(path):
    rows = [line.split("|") for line in path.read_text().splitlines()]
    return TableContents(pd.DataFrame(rows[1:], columns=rows[0]), ["read with pipes"])


TABLE_READERS = {".pipes": read_pipes}
"""


@pytest.fixture(autouse=True)
def fresh_registry():
    registries = file_types.table_readers, file_types.array_readers, file_types._modules
    for registry in registries:
        registry.cache_clear()
    yield
    for registry in registries:
        registry.cache_clear()


@pytest.fixture
def data_file(tmp_path):
    path = tmp_path / "data.PIPES"
    path.write_text("shape|y\n" + "".join(f"{'abc'[row % 3]}|{row % 2}\n" for row in range(20)))
    return path


def check_reader(path):
    data = open_data(path, "y")
    assert (data.samples, data.classes) == (20, ("0", "1"))
    assert data.remarks[0] == "read with pipes"


def test_a_file_in_the_package_adds_a_file_type(tmp_path, monkeypatch, data_file):
    with pytest.raises(InputError, match=r"Unsupported file type '\.pipes': .*Supported: \.csv "):
        open_data(data_file, "y")
    file_types._modules.cache_clear()
    file_types.table_readers.cache_clear()
    (tmp_path / "formats").mkdir()
    (tmp_path / "formats" / "pipe_files.py").write_text(READER)
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(tmp_path / "formats")])
    check_reader(data_file)


def test_an_entry_point_adds_a_file_type_and_a_broken_one_is_named(tmp_path, monkeypatch, data_file):
    (tmp_path / "pipe_reader.py").write_text(READER)
    (tmp_path / "broken_reader.py").write_text("raise RuntimeError('no licence')")
    monkeypatch.syspath_prepend(tmp_path)
    points = [EntryPoint(name, f"{name}_reader", "errata.readers") for name in ("broken", "pipe")]
    monkeypatch.setattr(discovery, "entry_points", lambda group: points if group == "errata.readers" else [])
    with pytest.warns(UserWarning, match=r"'broken' of the group 'errata\.readers' \(broken_reader\).*no licence"):
        check_reader(data_file)
    with pytest.raises(InputError, match=r"Cannot write '\.pipes' files"):
        errata.apply(data_file, accept_nothing(tmp_path), label="y")


def accept_nothing(folder):
    decisions = folder / "decisions.csv"
    decisions.write_text("id,label,decision,new_label\n0,0,accept,1\n")
    return decisions
