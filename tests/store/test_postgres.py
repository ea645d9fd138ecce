"""A journal in PostgreSQL: restarts, claims on two hosts, and what stands in the way."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from harness import Lab, call, new_session
from ipyagent import schema as s
from ipyagent.agent import event_stream
from ipyagent.errors import JournalError
from ipyagent.store import postgres as module
from ipyagent.store.database import WITHOUT
from ipyagent.store.journal import Journal, read_summary
from ipyagent.store.postgres import PostgresStore
from ipyagent.store.tables import MIGRATIONS
from patience import PATIENCE, wait_until
from servers.postgres import PASSWORD, PostgresServer
from stories import OPEN, begun, ended, raw, started, tell, types, whole_run

pytestmark = pytest.mark.slow


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.url()


@pytest.fixture
def path(url: str) -> str:
    return url


@pytest.fixture(scope="module")
def own() -> Iterator[PostgresServer]:
    """A server that tests restart."""
    server = PostgresServer()
    yield server
    server.remove()


@contextlib.contextmanager
def restarted(server: PostgresServer, how: signal.Signals = signal.SIGINT) -> Iterator[None]:
    """The server is away meanwhile."""
    server.stop(how)
    try:
        yield
    finally:
        server.start()


def kill_connections(server: PostgresServer) -> None:
    with server.connect() as other:
        end_others(other)


def end_others(connection: psycopg.Connection) -> None:
    query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    connection.execute(f"{query} AND backend_type = 'client backend'")


# -- a server that goes away


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT, signal.SIGKILL])
def test_nothing_is_lost_or_written_twice_when_the_server_restarts_during_a_run(
    how: signal.Signals, own: PostgresServer
) -> None:
    journal = Journal.open(own.url())
    session, story = begun(journal), whole_run(steps=3)
    assert journal.claim(session.id)
    for event in story[:5]:
        tell(journal, session, "r1", [event])
    with restarted(own, how):
        for event in story[5:9]:
            journal.append(session.id, "r1", event)
        flushed = journal.flush()
        wait_until(lambda: journal._writer.store._connection.closed)
        assert not flushed.done()
    flushed.result(PATIENCE)
    for event in story[9:]:
        tell(journal, session, "r1", [event])
    assert types(journal, session) == [event.type for event in story]
    (run,) = journal.runs(session.id)
    assert run.status is s.RunStatus.DONE
    journal.close()


def test_a_kernel_that_writes_all_the_time_loses_nothing_when_connections_are_cut(
    own: PostgresServer,
) -> None:
    journal = Journal.open(own.url())
    session = begun(journal)
    tell(journal, session, "r1", [started()])
    done = threading.Event()

    def write() -> None:
        for number in range(150):
            tell(journal, session, "r1", [s.Notice(text=str(number))])
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.wait(0.02):
        kill_connections(own)
    writer.join()
    assert journal.run("r1").notes == tuple(map(str, range(150)))
    journal.close()


@pytest.mark.parametrize("was_committed", [True, False])
def test_a_decision_whose_commit_got_no_answer_is_made_once(
    was_committed: bool, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A naive retry would fail: the plan was approved by then."""
    store = PostgresStore(url)
    execute = psycopg.Connection.execute

    def cut(connection: psycopg.Connection, query: object, *values: object) -> object:
        if query != "COMMIT":
            return execute(connection, query, *values)
        monkeypatch.undo()
        if was_committed:
            execute(connection, "COMMIT")
        connection.close()  # which rolls back, unless that is over
        raise psycopg.OperationalError("the connection is gone")

    monkeypatch.setattr(psycopg.Connection, "execute", cut)
    done: list[str] = []

    def job(db: object) -> int:
        done.append("once")
        query = "INSERT INTO sessions (id, name, record, activity) VALUES ('a', 'a', '{}', 1)"
        return store.execute(query).rowcount

    assert store.change(job) == 1
    assert len(done) == (1 if was_committed else 2)
    assert len(store.execute("SELECT id FROM sessions").fetchall()) == 1
    store.close()


def test_a_server_that_stays_away_is_reported_and_what_happened_is_written_later(
    own: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AWAY_SECONDS", 0.2)
    journal = Journal.open(own.url())
    session = begun(journal)
    with restarted(own):
        journal.append(session.id, "r1", started())
        for _ in range(2):
            with pytest.raises(
                JournalError, match=r"its server cannot be used: .*Check that"
            ) as no:
                journal.flush().result(PATIENCE)
            assert PASSWORD not in str(no.value)
            assert str(no.value).endswith(f"or {WITHOUT}.")
        with pytest.raises(JournalError, match="its server cannot be used"):
            Journal.open(own.url())
    tell(journal, session, "r1", [ended()])
    assert types(journal, session) == ["run_started", "run_finished"]
    journal.close()


def test_a_server_that_no_longer_answers_is_reported_and_written_to_later(
    own: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AWAY_SECONDS", 0.3)
    journal = Journal.open(own.url())
    session = begun(journal)
    with own.frozen():
        journal.append(session.id, "r1", started())
        with pytest.raises(JournalError, match=r"it has not answered for 0\.3 s\. Check that"):
            journal.flush().result(PATIENCE)
    monkeypatch.undo()
    tell(journal, session, "r1", [ended()])
    assert types(journal, session) == ["run_started", "run_finished"]
    journal.close()


def test_a_kernel_ends_at_once_while_the_server_is_away(own: PostgresServer) -> None:
    code = f"""{OPEN}
from ipyagent import schema as s
journal = opened(sys.argv[1])
session = s.Session()
journal.create(session)
print("ready", flush=True)
sys.stdin.readline()
journal.append(session.id, "r1", s.RunStarted(run=s.Run(id="r1")))
journal.save()
"""
    command = [sys.executable, "-c", code, own.url()]
    pipe = subprocess.PIPE
    child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert child.stdout.readline() == "ready\n"
    with restarted(own):
        _, errors = child.communicate("\n", timeout=module.AWAY_SECONDS / 2)
    assert "its server cannot be used" in errors
    assert "Traceback" not in errors


def test_a_run_says_once_that_it_waits_and_goes_on_when_the_server_is_back(
    own: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "SLOW_SECONDS", 0.1)
    journal = Journal.open(own.url())
    lab = Lab(tmp_path)
    lab.session = new_session(journal)
    (tmp_path / "a.txt").write_text("It is 12.")

    def heard(event: s.Event) -> None:
        if isinstance(event, s.StepFinished) and event.step == 1:
            own.stop()
        elif isinstance(event, s.Notice):
            threading.Thread(target=own.start).start()

    replies = [{"calls": [call("read_file", path="a.txt")]} for _ in range(2)]
    run = lab.run([*replies, "It is 12."], heard=heard)
    assert (run.status, run.output, len(run.results)) == (s.RunStatus.DONE, "It is 12.", 2)
    assert [note for note in run.notes if "the run waits for it" in note] == [*run.notes]
    assert len(run.notes) == 1
    assert journal.run(run.id).output == "It is 12."
    journal.close()


# -- one kernel at a time


HOLD = f"""{OPEN}
journal = opened(sys.argv[1])
print(journal.claim(sys.argv[2]), flush=True)
sys.stdin.readline()
print(journal.claim(sys.argv[2]), flush=True)
"""


def test_two_kernels_on_two_hosts_do_not_continue_one_session(url: str) -> None:
    """Nothing on the disk is shared: each has a home folder of its own."""
    journal = Journal.open(url)
    session = begun(journal)
    pipe = subprocess.PIPE
    first, second = (
        subprocess.Popen([sys.executable, "-c", HOLD, url, session.id], stdin=pipe, stdout=pipe)
        for _ in range(2)
    )
    answers = [each.stdout.readline() for each in (first, second)]
    assert sorted(answers) == [b"False\n", b"True\n"]
    holder, other = (first, second) if answers[0] == b"True\n" else (second, first)
    assert not journal.claim(session.id)
    holder.kill()
    holder.communicate()
    wait_until(lambda: journal.claim(session.id))
    assert other.communicate(b"\n")[0] == b"False\n"
    journal.close()


def test_a_kernel_keeps_its_sessions_through_a_restart_of_the_server(own: PostgresServer) -> None:
    place = own.url()
    mine, theirs = Journal.open(place), Journal.open(place)
    session = begun(mine)
    assert mine.claim(session.id)
    with restarted(own):
        pass
    tell(mine, session, "r1", [started()])
    assert not theirs.claim(session.id)
    for each in (mine, theirs):
        each.close()


def test_a_kernel_whose_session_was_taken_over_meanwhile_writes_nothing_more_to_it(
    own: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_OPTIONS", "-clock_timeout=100ms")
    place = own.url()
    mine, theirs = Journal.open(place), Journal.open(place)
    session, another = begun(mine), begun(mine)
    assert mine.claim(session.id)
    kill_connections(own)
    assert theirs.claim(session.id)
    mine.append(session.id, "r1", started())
    mine.append(another.id, "r2", started("r2"))
    with pytest.raises(JournalError, match=r"another kernel has .* Begin another: `%agent"):
        mine.flush().result(PATIENCE)
    assert types(theirs, session) == []
    assert types(theirs, another) == ["run_started"]
    theirs.close()
    assert mine.claim(session.id)
    tell(mine, session, "r3", [started("r3")])
    mine.close()


def test_a_session_that_another_kernel_had_meanwhile_is_not_continued_as_if_nothing_happened(
    own: PostgresServer,
) -> None:
    """A naive kernel would get its claim back, and write between the lines of the other one."""
    place = own.url()
    mine, theirs = Journal.open(place), Journal.open(place)
    session = begun(mine)
    assert mine.claim(session.id)
    tell(mine, session, "r1", [started()])
    kill_connections(own)
    assert theirs.claim(session.id)
    tell(theirs, session, "r2", [started("r2"), ended()])
    theirs.release(session.id)
    mine.append(session.id, "r1", ended())
    with pytest.raises(JournalError, match="another kernel has continued the session"):
        mine.flush().result(PATIENCE)
    assert types(theirs, session) == ["run_started", "run_started", "run_finished"]
    assert theirs.claim(session.id)
    for each in (mine, theirs):
        each.close()


@pytest.mark.parametrize("problem", [KeyboardInterrupt, psycopg.errors.QueryCanceled])
def test_a_kernel_that_was_stopped_while_it_claimed_again_does_not_write_to_a_lost_session(
    problem: type[BaseException], own: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = own.url()
    mine, theirs = Journal.open(place), Journal.open(place)
    session, another = begun(mine), begun(mine)
    assert mine.claim(session.id)
    kill_connections(own)
    assert theirs.claim(session.id)
    execute = psycopg.Connection.execute

    def stop(connection: psycopg.Connection, query: object, *values: object) -> object:
        if "pg_advisory_lock" not in str(query):
            return execute(connection, query, *values)
        monkeypatch.undo()
        monkeypatch.setattr(module, "_OPTIONS", "-clock_timeout=100ms")
        raise problem

    monkeypatch.setattr(psycopg.Connection, "execute", stop)
    with contextlib.suppress(KeyboardInterrupt, JournalError):
        mine.claim(another.id)
    mine.append(session.id, "r1", started())
    with pytest.raises(JournalError, match="another kernel has continued the session"):
        mine.flush().result(PATIENCE)
    assert types(theirs, session) == []
    assert not mine.claim(session.id)
    for each in (mine, theirs):
        each.close()


@pytest.mark.parametrize("name", ["Sales", "%22Sales%22", "s" * 80, "an-empty-one,public"])
def test_kernels_that_name_a_schema_in_the_same_way_do_not_continue_one_session(
    name: str, postgres: PostgresServer
) -> None:
    place = postgres.url(name)
    first = Journal.open(place)
    session = begun(first)
    assert first.claim(session.id)
    second = Journal.open(place)
    assert not second.claim(session.id)
    assert second.session(session.id)
    for each in (first, second):
        each.close()


# -- users and folders


def test_each_user_s_folder_has_a_journal_of_its_own_unless_the_url_names_one(
    own: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = own.url().partition("?")[0]
    folders = [tmp_path / "Sales 2026", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()

    def names(place: str) -> list[list[str]]:
        found = []
        for folder in folders:
            journal = Journal.open(PostgresStore.url_of_folder(place, folder))
            begun(journal)
            found.append([each.name for each in journal.sessions()])
            journal.close()
        return found

    assert names(plain) == [["notebook"], ["notebook"]]
    monkeypatch.setenv("JUPYTERHUB_USER", "bob")
    assert names(plain) == [["notebook"], ["notebook"]]
    assert names(plain) == [["notebook", "notebook"], ["notebook", "notebook"]]
    with own.connect() as connection:
        query = (
            "SELECT nspname FROM pg_namespace WHERE nspname ~ '^ipyagent_bob_sales_2026_\\w{8}$'"
        )
        assert len(connection.execute(query).fetchall()) == 1
    assert len(names(own.url())[1]) == 2


# -- what stands in the way


def refused(place: str) -> str:
    with pytest.raises(JournalError) as caught:
        Journal.open(place)
    text = str(caught.value)
    assert PASSWORD not in text
    assert text.endswith(f", or {WITHOUT}.")
    return text


def test_a_wrong_password_and_an_unknown_database_are_reported(postgres: PostgresServer) -> None:
    wrong = postgres.url().replace("s3cret", "wr0ng")
    text = refused(wrong)
    assert "password authentication failed for user" in text
    assert "wr0ng" not in text
    assert 'database "nowhere" does not exist' in refused(postgres.url(database="nowhere"))


@pytest.mark.parametrize(
    "place",
    [
        "postgresql://ada:p@ss-canary@h/d",
        "postgresql://ada:pa/ss-canary@h/d",
        "postgresql://ada:12/ss-canary@h/d",
        "postgresql://ada:/ss-canary@h/d",
        "postgresql://ada:ss-canary@h/d?nonsense=1",
        "postgresql://ada:%zzss-canary@h/d",
        "postgresql://[ada:ss-canary",
        "ss-canary",
    ],
)
def test_a_url_that_cannot_be_read_is_not_quoted(place: str) -> None:
    text = refused(place)
    assert "canary" not in text
    assert "Write postgresql://USER@HOST/DATABASE" in text


def test_without_psycopg_the_error_says_what_to_install(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "ipyagent.store.postgres")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert "pip install 'ipyagent[postgres]'" in refused(url)


def test_databases_that_do_not_fit_are_left_as_they_are(postgres: PostgresServer) -> None:
    with postgres.connect() as other:
        other.execute("CREATE DATABASE old ENCODING 'LATIN1' TEMPLATE template0")
        assert "its encoding is LATIN1" in refused(postgres.url(database="old"))
        other.execute("CREATE SCHEMA theirs CREATE TABLE sessions (mine TEXT)")
        assert "has tables of another program" in refused(postgres.url("theirs"))
        query = "SELECT tablename FROM pg_tables WHERE schemaname = 'theirs'"
        assert other.execute(query).fetchall() == [("sessions",)]
        other.execute(f"CREATE ROLE bob LOGIN PASSWORD '{PASSWORD}'")
        assert "its role may not use or create" in refused(postgres.url("bobs", user="bob"))
        other.execute("CREATE SCHEMA bobs AUTHORIZATION bob")
        Journal.open(postgres.url("bobs", user="bob")).close()


def test_a_journal_of_a_newer_version_is_left_as_it_is(url: str) -> None:
    Journal.open(url).close()
    with raw(url) as other:
        other.execute("UPDATE journal_version SET version = ?", (len(MIGRATIONS) + 1,))
    assert "a newer ipyagent made it" in refused(url)


def test_tables_that_are_only_called_like_ours_are_left_as_they_are(
    postgres: PostgresServer,
) -> None:
    place = postgres.url("lookalike")
    with postgres.connect() as other:
        other.execute("CREATE SCHEMA lookalike CREATE TABLE journal_version (version INTEGER)")
        other.execute("CREATE TABLE lookalike.sessions (id INTEGER)")
        other.execute("CREATE TABLE lookalike.writers (at TIMESTAMPTZ)")
    assert "has tables of another program" in refused(place)
    assert read_summary(place).sessions == ()


def test_an_older_journal_is_migrated(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIGRATIONS", MIGRATIONS[:1])
    journal = Journal.open(url)
    session = begun(journal)
    journal.close()
    monkeypatch.undo()
    journal = Journal.open(url)
    tell(journal, session, "r1", whole_run())
    assert journal.run("r1").status is s.RunStatus.DONE
    journal.close()


@pytest.mark.parametrize(
    ("name", "default", "value"),
    [
        ("synchronous_commit", "off", "on"),  # so that commits are on the disk
        ("statement_timeout", "1s", "0"),
        ("idle_in_transaction_session_timeout", "1s", "0"),
        ("client_encoding", "latin1", "UTF8"),
    ],
)
def test_what_the_journal_depends_on_is_set_whatever_the_role_s_default_is(
    name: str, default: str, value: str, postgres: PostgresServer
) -> None:
    with postgres.connect() as other:
        other.execute(f"ALTER ROLE ada SET {name} = '{default}'")
        store = PostgresStore(postgres.url())
        row = store.execute(f"SELECT current_setting('{name}') AS value").fetchone()
        other.execute(f"ALTER ROLE ada RESET {name}")
    assert row["value"] == value
    store.close()


def test_a_url_that_names_an_encoding_keeps_every_text(url: str) -> None:
    journal = Journal.open(f"{url}&client_encoding=latin1")
    session = begun(journal, name="日本")
    assert journal.session("日本").id == session.id
    journal.close()


def test_a_locked_journal_is_reported(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_OPTIONS", "-clock_timeout=100ms")
    journal, other = Journal.open(url), PostgresStore(url)
    session = begun(journal)
    with other._transaction():
        journal.append(session.id, "r1", started())
        with pytest.raises(JournalError, match="another kernel has kept it locked"):
            journal.flush().result(PATIENCE)
    tell(journal, session, "r1", [ended()])
    assert types(journal, session) == ["run_started", "run_finished"]
    journal.close()
    other.close()


LATE = {
    "PGHOSTADDR": "127.0.0.9",
    "PGHOST": "127.0.0.9",
    "PGPORT": "1",
    "PGPASSWORD": "wrong",
    "PGSSLMODE": "verify-full",
    "PGGSSENCMODE": "require",
}


@pytest.mark.parametrize("name", LATE)
def test_a_variable_set_later_does_not_lead_elsewhere(
    name: str, own: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A naive connection would follow it, and so may send the password to somebody else."""
    start = {"PGHOST": "127.0.0.1", "PGPORT": str(own.port), "PGPASSWORD": PASSWORD}
    for each, value in start.items():
        monkeypatch.setenv(each, value)
    url = f"postgresql://ada@/team?{own.url().partition('?')[2]}"
    early = Journal.open(PostgresStore.url_of_folder(url, tmp_path, start))
    session = begun(early)
    with own.connect() as other:
        monkeypatch.setenv(name, LATE[name])
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url)
        late = Journal.open(PostgresStore.url_of_folder(url, tmp_path, start))
        assert late.session(session.id)
        end_others(other)
    tell(early, session, "r1", [started()])
    for each in (early, late):
        each.close()


def test_a_url_that_names_how_it_is_secured_holds(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGSSLMODE", "disable")
    assert "server does not support SSL" in refused(f"{postgres.url()}&sslmode=require")


@pytest.mark.parametrize("name", ["PGSERVICE", "PGSERVICEFILE", "PGSYSCONFDIR"])
def test_a_file_of_services_named_later_is_refused(
    name: str, postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal.open(postgres.url())
    monkeypatch.setenv(name, str(tmp_path))
    with pytest.raises(JournalError, match=f"{name} has changed since this process started"):
        PostgresStore.url_of_folder(postgres.url(), tmp_path, {})
    journal.close()


def test_a_fork_has_no_password_and_claims_nothing(journal: Journal) -> None:
    session, other = begun(journal), begun(journal)
    assert journal.claim(session.id)
    child = os.fork()
    if child == 0:
        journal.release(session.id)
        try:
            journal.claim(other.id)
        except JournalError as error:
            is_clean = "forked" in str(error) and not journal._locks._parts
            os._exit(0 if is_clean else 2)
        os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    tell(journal, session, "r1", [started()])
    assert types(journal, session) == ["run_started"]


def test_texts_with_a_nul_are_kept_without_it(journal: Journal) -> None:
    session = s.Session(name="a\0b")
    journal.create(session)
    tell(journal, session, "r1", [started(prompt="x\0y"), s.Notice(text="n\0n")])
    assert journal.run("r1").notes == ("n\0n",)
    assert journal.session("a\0b").id == session.id
