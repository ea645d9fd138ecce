"""The journal in a PostgreSQL database: the same tables, statements and guarantees as in a file.

A transaction has the journal to itself, as in SQLite. A kernel's claims on sessions are advisory
locks of the one connection that it also writes over, so they end with the kernel, and after a lost
connection nothing is written before they are held again. What was lost with a connection is done
again over the next one; if the answer to COMMIT was lost, a row of this kernel's tells whether it
was carried out, so nothing is written twice.

Imported only when a URL is set.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Set as AbstractSet
from functools import lru_cache, partial
from hashlib import blake2b
from pathlib import Path
from time import monotonic
from typing import TypeVar, cast
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo
from psycopg.rows import DictRow, dict_row
from tenacity import Retrying, retry_if_exception, wait_exponential

from ipyagent.store.database import FORKED, failure
from ipyagent.store.tables import MIGRATIONS, Database, Values

T = TypeVar("T")

AWAY_SECONDS = 60.0
"""Seconds for which a server may be away before an error says so."""

LOCK_SECONDS = 15
"""Seconds for which another kernel may keep the journal locked.

A server notices in less than that that a kernel's host is gone, and frees its claims.
"""

# Not from PGHOSTADDR: the URL names the host.
_DEFAULTS = """hostaddr='' application_name=ipyagent connect_timeout=10
    keepalives_idle=5 keepalives_interval=2 keepalives_count=2 tcp_user_timeout=10000"""
_OPTIONS = f"""-clock_timeout={LOCK_SECONDS}s -csynchronous_commit=on
    -cstatement_timeout=0 -cidle_in_transaction_session_timeout=0
    -ctcp_keepalives_idle=5 -ctcp_keepalives_interval=2 -ctcp_keepalives_count=2"""

_DIALECT = {
    "INTEGER PRIMARY KEY AUTOINCREMENT": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "CREATE TABLE runs (": "CREATE TABLE runs (rowid BIGINT GENERATED ALWAYS AS IDENTITY,",
    " WITHOUT ROWID": "",
    "TEXT": 'TEXT COLLATE "C"',  # ordered as bytes are
    "BEGIN SELECT RAISE(ABORT, 'events are only ever added'); END": (
        "FOR EACH ROW EXECUTE FUNCTION refuse_change()"
    ),
}
"""Words of SQLite's in the migrations, and PostgreSQL's for them."""

_OWN_TABLES = """
    CREATE TABLE journal_version (version INTEGER NOT NULL);
    INSERT INTO journal_version VALUES (0);
    CREATE TABLE writers (
        id TEXT PRIMARY KEY, token TEXT NOT NULL, at TIMESTAMPTZ NOT NULL DEFAULT now()
    );
    CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'events are only ever added'; END $$
"""

_HOW_TO_WRITE = "Write postgresql://USER@HOST/DATABASE, in a password %40 for @ and %2F for /"
_REMEDIES = {
    "42501": ("its role may not use or create the schema", "Let its owner grant that"),
    "42P07": ("its schema has tables of another program", "Name another schema"),
    "53100": ("the server's disk is full", "Make room there"),
    "55P03": (f"another kernel has kept it locked for {LOCK_SECONDS} s", "End that kernel"),
}


def _parse(url: str) -> dict[str, str]:
    """Return the parts of a URL; raises JournalError, which quotes nothing of it."""
    with contextlib.suppress(psycopg.Error):
        parts = {name: str(value) for name, value in conninfo_to_dict(url).items()}
        # A slash in a password, not written as %2F, ends what is taken for the host and port.
        is_read = "@" not in parts.get("host", "") and not re.search("://[^/]*/[^?]*@", url)
        if is_read and re.fullmatch(r"[\d,]*", parts.get("port", "")):
            return parts
    raise failure("in PostgreSQL", "store.url cannot be read", _HOW_TO_WRITE)


_SERVICE = ("PGSERVICE", "PGSERVICEFILE", "PGSYSCONFDIR")
"""Variables of files that may set everything; no parameter puts back their earlier values."""


def _keep_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of PostgreSQL's variables that have changed since `environ`, as there.

    Else a folder's `.env` could say who gets the password, and whether certificates are checked.
    """
    kept, own = {}, conninfo_to_dict(_DEFAULTS).keys() | {"client_encoding", "options"}
    for name in _SERVICE:
        if os.environ.get(name) != environ.get(name):
            problem = f"{name} has changed since this process started, perhaps by a .env file"
            raise failure("in PostgreSQL", problem, "Restore it, or restart the kernel with it")
    for each in Conninfo.get_defaults():
        name, keyword = (each.envvar or b"").decode(), each.keyword.decode()
        if keyword not in own and os.environ.get(name) != environ.get(name):
            kept[keyword] = environ.get(name, (each.compiled or b"").decode())
    return kept


def _describe(parts: dict[str, str]) -> str:
    """Return the URL without a password, and the schema that it names."""
    user, host, port, name = (parts.get(each, "") for each in ("user", "host", "port", "dbname"))
    schema = re.search(r"search_path=(\S+)", parts.get("options", ""))
    place = f"postgresql://{user and user + '@'}{host}{port and ':' + port}/{name}"
    return f"{place}, schema {schema[1]}" if schema else place


@lru_cache(maxsize=64)
def _translate(statement: str) -> str:
    """Return a statement with psycopg's placeholders."""
    return re.sub(r"\?|:(\w+)", lambda place: f"%({place[1]})s" if place[1] else "%s", statement)


def _plain(value: object) -> object:
    """Return a text as PostgreSQL can store it, without NUL, and of no class of its own."""
    return str(value).replace("\0", "\ufffd") if isinstance(value, str) else value


class _Client(psycopg.Connection[DictRow]):
    """A connection that gives up a server that is there, but does not answer."""

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """Carry out a step of the protocol; raises OperationalError."""
        return super().wait(self._limit_silence(gen), interval)

    def _limit_silence(self, steps: PQGen[T]) -> PQGen[T]:
        heard = monotonic()
        try:
            wanted = next(steps)
            while monotonic() - heard < AWAY_SECONDS:
                if ready := (yield wanted):
                    heard = monotonic()
                wanted = steps.send(ready)
        except StopIteration as end:
            return cast(T, end.value)
        self.close()
        raise psycopg.OperationalError(f"it has not answered for {AWAY_SECONDS:g} s")


class PostgresStore:
    """The database at a URL; its methods may be called from any thread, and raise JournalError."""

    def __init__(self, url: str, *, is_readonly: bool = False) -> None:
        self._parts = _parse(url)
        self.place: Path | str | None = _describe(self._parts)
        self.taken: AbstractSet[str] = frozenset()
        self._claimed: set[str] = set()
        self._id, self._pid = uuid4().hex, os.getpid()
        self._environ = {name: os.environ[name] for name in os.environ if name.startswith("PG")}
        self._lock = threading.RLock()
        self.is_closing = False
        with self.explain_errors():
            self._connection = self._connect()
            try:
                if is_readonly:
                    self._connection.execute("SET default_transaction_read_only = on")
                    self._version()
                else:
                    self._prepare()
            except BaseException:
                self._connection.close()
                raise
        _all.add(self)

    @staticmethod
    def url_of_folder(url: str, folder: Path, environ: Mapping[str, str] = os.environ) -> str:
        """Return where the journal of a user's folder is: in a schema of its own.

        A URL that names a schema (`?options=-csearch_path%3DNAME`) keeps that; what a URL leaves
        out is taken from `environ`.
        """
        parts = {**_keep_variables(environ), **_parse(url)}
        options = parts.get("options", "")
        if "search_path" in options:
            return make_conninfo(**parts)
        home, user = os.path.expanduser("~"), os.environ.get("JUPYTERHUB_USER", "")  # noqa: PTH111
        user = user or Path(home).name
        key = "\0".join((parts.get("user", ""), user, home, os.path.realpath(folder)))
        words = (re.sub(r"\W+", "_", each.lower(), flags=re.A)[:20] for each in (user, folder.name))
        schema = "_".join(("ipyagent", *words, blake2b(key.encode(), digest_size=4).hexdigest()))
        return make_conninfo(**{**parts, "options": f"{options} -csearch_path={schema}".strip()})

    @contextlib.contextmanager
    def reading(self) -> Iterator[PostgresStore]:
        """Explain errors, and close the connection afterwards."""
        with contextlib.closing(self), self.explain_errors():
            yield self

    # -- as a connection

    def execute(self, statement: str, values: Values = (), /) -> psycopg.Cursor[DictRow]:
        """Carry out a statement."""
        if isinstance(values, Mapping):
            values = {name: _plain(value) for name, value in values.items()}
        else:
            values = [_plain(value) for value in values]
        return self._connection.execute(_translate(statement), values)

    # -- as the store of a journal

    def read(self, job: Callable[[Database], T]) -> T:
        """Return the result of a job that only reads; raises JournalError."""
        return self._retry(partial(job, self))

    def change(self, job: Callable[[Database], T]) -> T:
        """Return the result of a job, carried out in one transaction; raises JournalError."""
        token, results = uuid4().hex, list[T]()
        query = "SELECT 1 FROM writers WHERE id = ? AND token = ?"

        def attempt() -> T:
            with self._transaction(token):
                # An earlier attempt may have been committed, and its transaction is over by now.
                if not (results and self.execute(query, (self._id, token)).fetchone()):
                    results[:] = [job(self)]
            return results[0]

        return self._retry(attempt)

    def close(self) -> None:
        """Close the connection, which frees all claims."""
        with contextlib.suppress(psycopg.Error):
            self.execute("DELETE FROM writers WHERE id = ?", (self._id,))
            # The server may take a moment to notice that the connection is gone.
            self.execute("SELECT pg_advisory_unlock_all()")
        self._connection.close()

    # -- claims

    def claim(self, session_id: str) -> bool:
        """Return whether the session is ours now; raises JournalError."""
        with self._lock:
            if session_id in self._claimed:
                return True
            if self._retry(partial(self._take, session_id)):
                self._claimed.add(session_id)
                self.taken -= {session_id}
            return session_id in self._claimed

    def _take(self, session_id: str) -> bool:
        """Lock the session if it is free, and leave our name for the kernel that had it."""
        query = "SELECT pg_try_advisory_lock(?) AS is_ours"
        row = self.execute(query, (self._key(session_id),)).fetchone()
        if is_ours := bool(row and row["is_ours"]):
            self._write_token(f"claim {session_id}", self._id)
        return is_ours

    def holds(self, session_id: str) -> bool:
        """Return whether no other kernel can claim the session."""
        return session_id in self._claimed

    def release(self, session_id: str) -> None:
        """Release the session for others."""
        with self._lock, contextlib.suppress(psycopg.Error):
            if session_id in self._claimed:
                self._claimed.discard(session_id)
                self.execute("SELECT pg_advisory_unlock(?)", (self._key(session_id),))

    def _key(self, name: str) -> int:
        """Return the number of an advisory lock, which is one of the whole database."""
        data = f"{self._schema}\0{name}".encode()
        return int.from_bytes(blake2b(data, digest_size=8).digest(), signed=True)

    # -- how

    def _connect(self) -> psycopg.Connection[DictRow]:
        if os.getpid() != self._pid:
            raise failure(self.place, *FORKED)
        options = f"{_OPTIONS} {self._parts.get('options', '')}"
        where = {**_keep_variables(self._environ), **self._parts}
        where |= {"options": options, "client_encoding": "utf8"}
        place = make_conninfo(_DEFAULTS, **where)
        return _Client.connect(place, autocommit=True, row_factory=dict_row, prepare_threshold=None)

    def _prepare(self) -> None:
        # As PostgreSQL reads a name: in lower case unless it is quoted, and 63 bytes of it.
        query = """SELECT current_schema() AS found, current_setting('server_encoding') AS encoding,
            CAST(CASE left(way, 1) WHEN '"' THEN btrim(way, '"') ELSE lower(way) END AS name) named
            FROM btrim(split_part(current_setting('search_path'), ',', 1) COLLATE "C") AS way"""
        row = self.execute(query).fetchone() or {}
        if row["encoding"] != "UTF8":
            problem = f"its encoding is {row['encoding']}, which cannot hold every text"
            raise failure(self.place, problem, "Make a database with the encoding UTF8")
        self._schema = row["found"] or row["named"]
        with self._transaction():
            if row["found"] is None:
                create = sql.SQL("CREATE SCHEMA IF NOT EXISTS {}")
                self._connection.execute(create.format(sql.Identifier(self._schema)))
            made = self.execute("SELECT to_regclass('journal_version') AS made").fetchone()
            if not (made and made["made"]):
                self._connection.execute(_OWN_TABLES)
            self.execute("DELETE FROM writers WHERE at < now() - interval '30 days'")
            version = self._version()
            for statement in (each for some in MIGRATIONS[version:] for each in some):
                for word, ours in _DIALECT.items():
                    statement = statement.replace(word, ours)
                self._connection.execute(statement)
            if version < len(MIGRATIONS):
                self.execute("UPDATE journal_version SET version = ?", (len(MIGRATIONS),))

    def _version(self) -> int:
        """Return the version of the tables, 0 if there are none; raises JournalError."""
        row = self.execute("SELECT version FROM journal_version").fetchone() or {}
        version: int = row.get("version", 0)
        if version > len(MIGRATIONS):
            problem = f"a newer ipyagent made it (version {version} after {len(MIGRATIONS)})"
            raise failure(self.place, problem, "Update ipyagent, or name another schema")
        return version

    @contextlib.contextmanager
    def _transaction(self, token: str = "") -> Iterator[None]:
        """Commit all or nothing, while nobody else writes."""
        # Not in the isolation of the role's choice: what others committed before is seen.
        begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SELECT pg_advisory_xact_lock"
        try:
            self._connection.execute(f"{begin}({self._key('')})")
            yield
            if token:
                self._write_token(self._id, token)
            self._connection.execute("COMMIT")
        except BaseException:
            if not self._connection.closed:
                self._connection.execute("ROLLBACK")
            raise

    def _write_token(self, name: str, token: str) -> None:
        statement = "INSERT INTO writers (id, token) VALUES (?, ?) ON CONFLICT (id)"
        update = "DO UPDATE SET token = excluded.token, at = excluded.at"
        self.execute(f"{statement} {update}", (name, token))

    def _retry(self, attempt: Callable[[], T]) -> T:
        """Return the result of an attempt; while the server is away, try again."""

        def attempt_connected() -> T:
            if self._connection.closed:
                self._reconnect()
            return attempt()

        retry = Retrying(
            retry=retry_if_exception(self._is_lost),
            stop=lambda state: self.is_closing or (state.seconds_since_start or 0) >= AWAY_SECONDS,
            wait=wait_exponential(0.1, max=1.0),
            reraise=True,
        )
        with self._lock, self.explain_errors():
            return retry(attempt_connected)

    def _is_lost(self, error: BaseException) -> bool:
        """Return whether an error ended the connection."""
        if isinstance(error, psycopg.OperationalError) and (error.sqlstate or "")[:3] == "57P":
            self._connection.close()  # the server will do so, and does no more
        return isinstance(error, psycopg.OperationalError) and self._connection.closed

    def _reconnect(self) -> None:
        """Connect again, and claim again what was claimed: nothing is written before that."""
        self._connection = self._connect()
        for each in sorted(self._claimed):
            try:  # The server may not have noticed yet that the former connection is gone.
                self.execute("SELECT pg_advisory_lock(?)", (self._key(each),))
                query = "SELECT token FROM writers WHERE id = ?"
                row = self.execute(query, (f"claim {each}",)).fetchone()
                if row and row["token"] != self._id:  # who had it meanwhile has released it
                    self.taken |= {each}
                    self.release(each)
            except psycopg.errors.LockNotAvailable:
                self._claimed.discard(each)
                self.taken |= {each}
            except BaseException:  # also a stop: the next attempt claims the rest
                self._connection.close()
                raise

    @contextlib.contextmanager
    def explain_errors(self) -> Iterator[None]:
        """Raise errors of PostgreSQL as JournalError."""
        try:
            yield
        except psycopg.Error as error:
            text = " ".join(str(error).split()).rstrip(".")
            other = f"its server cannot be used: {text}", "Check that it runs, and store.url"
            problem, remedy = _REMEDIES.get(error.sqlstate or "", other)
            raise failure(self.place, problem, remedy) from None


_all: weakref.WeakSet[PostgresStore] = weakref.WeakSet()


def _close_in_child() -> None:
    """Close a fork's copies of its parent's connections, which would keep the parent's claims."""
    for store in tuple(_all):
        store._lock = threading.RLock()  # the thread that holds it may not be here
        store._parts.clear()  # a copy needs no password
        store._environ.clear()
        store._claimed.clear()
        with contextlib.suppress(OSError, psycopg.Error):
            os.close(store._connection.fileno())  # first, so that the server hears nothing
            store._connection.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
