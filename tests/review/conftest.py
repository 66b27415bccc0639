"""Results and databases for reviews: the same tests run with SQLite and PostgreSQL. Waits on pages are patient."""

import os
import shutil

import pytest
from playwright.sync_api import expect

from postgresql_server import MISSING, postgresql_server, program
from review_servers import PATIENCE, made_up_result

expect.set_options(timeout=1_000 * PATIENCE)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A results folder that tests do not change."""
    return made_up_result(tmp_path_factory.mktemp("results") / "errata-out")


@pytest.fixture
def folder(results, tmp_path):
    """A copy of it."""
    return shutil.copytree(results, tmp_path / "errata-out")


@pytest.fixture(scope="session")
def postgresql():
    """The address of a running PostgreSQL; without one its tests are left out, unless ERRATA_POSTGRESQL=required."""
    if program("initdb") is None:
        pytest.fail(MISSING) if os.environ.get("ERRATA_POSTGRESQL") == "required" else pytest.skip(MISSING)
    with postgresql_server() as address:
        yield address


@pytest.fixture(params=["sqlite", "postgresql"])
def database_address(request, tmp_path):
    """A new, empty database."""
    if request.param == "sqlite":
        return str(tmp_path / "review.sqlite")
    from sqlalchemy import create_engine, text

    address = request.getfixturevalue("postgresql")
    engine = create_engine(address.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT")
    name = f"test_{abs(hash(str(tmp_path)))}"
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return address.replace("/postgres?", f"/{name}?")
