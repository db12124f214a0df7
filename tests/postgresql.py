"""A real PostgreSQL server for tests: Debian's package, in a folder of its own, on a loopback port."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOT_INSTALLED = (
    "PostgreSQL's server programs are not installed: no initdb on PATH or in /usr/lib/postgresql/*/bin "
    "(on Debian: apt-get install postgresql)"
)


def server_programs() -> Path | None:
    """The folder with initdb and pg_ctl; Debian does not put them on PATH."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("initdb")
    if found:
        folders.append(Path(found).parent)
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "pg_ctl").exists()), None)


@contextmanager
def postgresql_server(programs: Path) -> Iterator[str]:
    """Start a server and give its SQLAlchemy address; it is gone afterwards, with all it wrote."""
    home = Path(tempfile.mkdtemp(prefix="lakeshift-postgresql-"))
    # The server refuses to run as root, as tests in a container often do.
    user = "postgres" if os.geteuid() == 0 else None
    if user:
        shutil.chown(home, user, pwd.getpwnam(user).pw_gid)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def run(program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(programs / program), *arguments], user=user, cwd=home, capture_output=True, text=True, timeout=120
        )
        log = (home / "log").read_text() if (home / "log").exists() else ""
        assert done.returncode == 0, f"{program} failed: {done.stdout}{done.stderr}{log}"

    data = str(home / "data")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={home} -c fsync=off"
    try:
        run("initdb", "-D", data, "-U", "lakeshift", "-A", "trust", "--no-sync")
        # pg_ctl's server keeps the pipe open, so that its output goes to a file.
        run("pg_ctl", "-D", data, "-l", str(home / "log"), "-o", options, "-w", "start")
        try:
            yield f"postgresql+psycopg://lakeshift@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(home)
