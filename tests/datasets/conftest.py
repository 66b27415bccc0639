import os
from pathlib import Path

import pytest

BESIDE_THE_PROJECT = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Nobody's cache is read or written."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


@pytest.fixture(scope="session")
def real_data():
    """The folder of real files, a folder a dataset."""
    folder = Path(os.environ.get("ERRATA_DATA", BESIDE_THE_PROJECT))
    if not folder.is_dir():
        pytest.skip(f"there is no real data in {folder}: set ERRATA_DATA")
    return folder
