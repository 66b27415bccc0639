"""A PostgreSQL server for tests: in a temporary folder, on a socket of its own, as a user other than root."""

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

MISSING = "there is no PostgreSQL on this machine (Debian package postgresql), so reviews are not tested with it"


def program(name):
    """The path of a program of PostgreSQL, or None; Debian does not put them into PATH."""
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(installed[-1]) if installed else shutil.which(name)


@contextmanager
def postgresql_server():
    """Start a server; returns the address of a database."""
    folder = Path(tempfile.mkdtemp(prefix="errata-pg-", dir="/tmp"))  # a socket path must be short
    user = "postgres" if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root
    if user:
        shutil.chown(folder, user)

    def run(*command):
        subprocess.run(
            command, user=user, check=True, cwd=folder, stdout=subprocess.DEVNULL, env={"PATH": os.environ["PATH"]}
        )

    data = str(folder / "data")
    run(program("initdb"), "-D", data, "-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")
    options = f"-c listen_addresses='' -c unix_socket_directories='{folder}'"
    run(program("pg_ctl"), "-D", data, "-w", "-l", str(folder / "log"), "-o", options, "start")
    try:
        yield f"postgresql://postgres@/postgres?host={folder}"
    finally:
        run(program("pg_ctl"), "-D", data, "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder, ignore_errors=True)
