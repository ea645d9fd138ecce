"""A PostgreSQL server for tests: in a folder of its own, on loopback, as a user who is not root."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg
import pytest

from patience import PATIENCE

PASSWORD = "s3cret/w0rd@home"

_numbers = count(1)


def find_program(name: str) -> str:
    """The program, also where Debian hides it; `make .venv/postgres` installs it."""
    found = shutil.which(name)
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    if not (found or places):
        raise RuntimeError("there is no PostgreSQL here: `make .venv/postgres` installs it")
    return found or str(places[-1])


def free_port() -> int:
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        return int(some.getsockname()[1])


class PostgresServer:
    """A server with the role `ada`, who has a password, and the database `team`."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="postgres-"))
        self.user = None
        if os.geteuid() == 0:  # it refuses to run as root
            self.user = next(n for n in ("postgres", "nobody") if _has_user(n))
            shutil.chown(self.folder, self.user)
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        data = str(self.folder / "data")
        command = ["initdb", "-D", data, "-U", "ada", "-A", "scram-sha-256", "-E", "UTF8"]
        self._run(*command, f"--pwfile={secret}", "--locale=C", "--no-sync")
        self.port = 0
        self.start()
        with self.connect("postgres") as connection:
            connection.execute("CREATE DATABASE team")

    def start(self) -> None:
        """Start; a port that another program took meanwhile is replaced, the first time."""
        for _ in range(5):
            port = self.port or free_port()
            options = ["-D", str(self.folder / "data"), "-p", str(port), "-k", str(self.folder)]
            self.process = subprocess.Popen(
                [find_program("postgres"), *options, "-c", "listen_addresses=127.0.0.1"],
                user=self.user,
                cwd=self.folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            for line in self.process.stderr:
                if "ready to accept connections" in line:
                    self.port = port
                    os.set_blocking(self.process.stderr.fileno(), False)
                    return
            self.process.wait()
        raise RuntimeError("the server does not start")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop: SIGINT ends all connections, SIGQUIT and SIGKILL are a crash."""
        helpers = psutil.Process(self.process.pid).children(recursive=True)
        self.process.send_signal(how)
        self.process.wait(PATIENCE)
        psutil.wait_procs(helpers, PATIENCE)
        self.process.stderr.close()

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """It is there, and says nothing."""
        server = psutil.Process(self.process.pid)
        every = [server, *server.children(recursive=True)]
        for each in every:
            each.suspend()
        try:
            yield
        finally:
            for each in reversed(every):
                each.resume()

    def remove(self) -> None:
        if self.process.poll() is None:
            self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, schema: str | None = None, *, database: str = "team", user: str = "ada") -> str:
        """The URL of a database, with a new schema unless one is named."""
        named = schema or f"s{next(_numbers)}_{os.getpid()}"
        login = f"{user}:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}"
        return f"postgresql://{login}/{database}?options=-csearch_path%3D{named}"

    def connect(self, database: str = "team") -> contextlib.closing[psycopg.Connection]:
        url = self.url("public", database=database)
        return contextlib.closing(psycopg.connect(url, autocommit=True))

    def _run(self, program: str, *arguments: str) -> None:
        command = [find_program(program), *arguments]
        subprocess.run(command, check=True, capture_output=True, user=self.user, cwd=self.folder)


def _has_user(name: str) -> bool:
    with contextlib.suppress(KeyError):
        return bool(pwd.getpwnam(name))
    return False


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer()
    yield server
    server.remove()
