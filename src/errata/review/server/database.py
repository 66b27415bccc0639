"""The database of a review: SQLite next to the results, or PostgreSQL."""

import contextlib
import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from errata.errors import InputError, LockedError, StoreError
from errata.extras import require
from errata.locks import WriteLock, lock_file
from errata.wording import one_line

FORMAT = 1  # of the tables; a database with a higher number was written by a newer version
ADVISORY_LOCK = 7_300_228_191  # PostgreSQL: one server per database


class ReviewDatabase:
    """An open database that no other server uses, or one that is only read.

    Its tables: about (names and values), reviewers (name, token), assignments (samples handed out), events, and imports
    (who loaded which events from a file).
    """

    def __init__(self, address: str | Path, *, read_only: bool = False) -> None:
        """Open and create what is missing. address: a path of an SQLite file, or postgresql://...

        read_only: create and lock nothing, so that a server may write at the same time.
        """
        self.path = None if _is_postgresql(address) else Path(address)
        if self.path is not None and not self.path.absolute().parent.is_dir():
            raise StoreError(f"{self.path} cannot be created: there is no folder {self.path.parent}")
        self._lock = None if self.path is None or read_only else _locked(self.path)
        self.tables = _tables()
        self.engine = _postgresql(str(address)) if self.path is None else _sqlite(self.path)
        self._holder: sa.Connection | None = None
        try:
            if self.path is None and not read_only:
                self._holder = _advisory_lock(self.engine, self.name)
            self._prepare(create=not read_only)
            self._inode = None if self.path is None else self.path.stat().st_ino
        except SQLAlchemyError as error:
            self.close()
            raise StoreError(f"{self.name} cannot be used as the database of a review: {reason(error)}") from error
        except BaseException:
            self.close()
            raise

    @property
    def name(self) -> str:
        """The database in messages, without a password."""
        return str(self.path) if self.path is not None else self.engine.url.render_as_string(hide_password=True)

    def _prepare(self, create: bool) -> None:
        """Create the tables of a new database, and check the format of another."""
        with self.engine.begin() as connection:
            existing = set(sa.inspect(connection).get_table_names())
            if existing and "about" not in existing:
                raise StoreError(f"{self.name} holds other tables: choose another database")
            if not existing and not create:
                raise StoreError(f"{self.name} is empty: it is not the database of a review")
            if create:
                self.tables.create_all(connection)
            about = self.tables.tables["about"]
            stored = {name: value for name, value in connection.execute(sa.select(about.c.name, about.c.value))}  # noqa: C416
            if create:
                new = {"format": str(FORMAT), "review": secrets.token_hex(8)}
                missing = [{"name": name, "value": value} for name, value in new.items() if name not in stored]
                if missing:
                    connection.execute(sa.insert(about), missing)
                stored = new | stored
            version = stored.get("format", "unknown")
            if not version.isdecimal() or int(version) > FORMAT:
                raise StoreError(
                    f"{self.name} was written by a newer version of errata (format {version}; this version "
                    f"reads {FORMAT}): update errata"
                )

    def tokens(self, reviewers: list[str], renew: bool = False) -> dict[str, str]:
        """The token of each reviewer, the same after every start. renew: make new ones."""
        table = self.tables.tables["reviewers"]
        with self.begin() as connection:
            if renew:
                connection.execute(sa.delete(table))
            stored = {name: token for name, token in connection.execute(sa.select(table.c.name, table.c.token))}  # noqa: C416
            new = [name for name in reviewers if name not in stored]
            for name in new:
                stored[name] = secrets.token_urlsafe(32)
                connection.execute(sa.insert(table), {"name": name, "token": stored[name]})
        return {name: stored[name] for name in reviewers} if reviewers else stored

    def settings(self) -> dict[str, str]:
        """What `about` says: the format of the tables, the id of the review, and the options of the last start."""
        about = self.tables.tables["about"]
        with self.begin() as connection:
            return {name: value for name, value in connection.execute(sa.select(about.c.name, about.c.value))}  # noqa: C416

    def remember(self, settings: Mapping[str, str]) -> None:
        """Store options for the next start."""
        about = self.tables.tables["about"]
        with self.begin() as connection:
            connection.execute(sa.delete(about).where(about.c.name.in_(settings)))
            connection.execute(sa.insert(about), [{"name": name, "value": text} for name, text in settings.items()])

    @contextlib.contextmanager
    def begin(self) -> Iterator[sa.Connection]:
        """A transaction. A StoreError says why it failed; then nothing was stored."""
        self._check_file()
        try:
            with self.engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise StoreError(f"nothing was stored in {self.name}: {reason(error)}") from error
        self._check_file()  # a commit to a deleted file succeeds

    def _check_file(self) -> None:
        if self.path is None:
            return
        try:
            same = self.path.stat().st_ino == self._inode
        except OSError:
            same = False
        if not same:
            raise StoreError(
                f"{self.path} was deleted or replaced while the server ran, and no new verdict can be stored. The "
                "server still has those stored before: before you stop it, let each reviewer click “Download "
                "decisions.csv” on the page. Then restore the folder and load the files: errata review --import"
            )

    def close(self) -> None:
        """Close all connections, and let another server use the database."""
        if self._holder is not None:
            self._holder.close()
        self.engine.dispose()
        if self._lock is not None:
            self._lock.release()


def reason(error: Exception) -> str:
    """The message of the database itself, in one line."""
    message = one_line(str(getattr(error, "orig", None) or error))
    return "the disk is full" if "database or disk is full" in message or "No space left" in message else message


def _is_postgresql(address: str | Path) -> bool:
    return str(address).startswith(("postgresql:", "postgres:", "postgresql+psycopg:"))


def _sqlite(path: Path) -> sa.Engine:
    """Write-ahead log with full synchronisation: a commit is on disk when it returns."""
    new = not path.exists()
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)  # it holds the links of the reviewers
        os.close(descriptor)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}") from error
    if new:
        _sync_folder(path.parent)
    engine = sa.create_engine(f"sqlite:///{path}", poolclass=StaticPool, connect_args={"check_same_thread": False})

    @sa.event.listens_for(engine, "connect")
    def _configure(connection: sqlite3.Connection, _: Any) -> None:
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=5000"):
            connection.execute(f"PRAGMA {pragma}")

    return engine


def _sync_folder(folder: Path) -> None:
    """The name of a new file survives a power loss only after this."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _postgresql(address: str) -> sa.Engine:
    require("psycopg", "psycopg", "postgresql", "a PostgreSQL database")
    try:
        url = make_url(address).set(drivername="postgresql+psycopg")
    except (ArgumentError, ValueError) as error:
        raise InputError("the address of the database must be like postgresql://user@host/name") from error
    return sa.create_engine(url, pool_pre_ping=True)


def _advisory_lock(engine: sa.Engine, name: str) -> sa.Connection:
    """A connection that holds the lock of the database until it is closed."""
    connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
    if not connection.execute(sa.text(f"SELECT pg_try_advisory_lock({ADVISORY_LOCK})")).scalar():
        connection.close()
        raise _already_running(name)
    return connection


def _locked(path: Path) -> WriteLock:
    """The lock of an SQLite database, which ends with its process."""
    try:
        return lock_file(path)
    except LockedError as error:
        raise _already_running(str(path)) from error


def _already_running(name: str) -> StoreError:
    return StoreError(
        f"errata review is already running on {name}: use its links, or stop it first. Its page also downloads and "
        "loads decisions.csv"
    )


def _tables() -> sa.MetaData:
    tables = sa.MetaData()
    sa.Table("about", tables, sa.Column("name", sa.Text, primary_key=True), sa.Column("value", sa.Text, nullable=False))
    sa.Table(
        "reviewers", tables, sa.Column("name", sa.Text, primary_key=True), sa.Column("token", sa.Text, nullable=False)
    )
    sa.Table(
        "assignments",
        tables,
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("sample", "reviewer", "time")),
        sa.Column("drawn_at_random", sa.Boolean, nullable=False),
        sa.Column("after_event", sa.BigInteger, nullable=False),
    )
    sa.Table(
        "imports",
        tables,
        sa.Column("first_event", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("last_event", sa.BigInteger, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("uploader", "time")),
    )
    sa.Table(
        "events",
        tables,
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("key", sa.Text, nullable=False, unique=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("reviewer", "time", "sample", "label", "suggestion")),
        sa.Column("rank", sa.BigInteger, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("verdict", "new_label", "undoes", "kind")),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("drawn_at_random", sa.Boolean, nullable=False),
    )
    return tables
