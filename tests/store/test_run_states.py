"""draft → queued → running → done | error | cancelled: only the first caller makes a transition."""

import re
import subprocess
import sys
from datetime import UTC, datetime
from functools import partial

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from harness import at_once
from ipyagent import schema as s
from ipyagent.errors import AgentError, JournalError, SessionError
from ipyagent.schema.runs import MOVES
from ipyagent.store.journal import Journal
from ipyagent.store.runs import plan_digest, plan_name
from stories import OPEN, PLAN, Place, begun, ended, plan, raw, started, tell

CLOCK = r"\d\d:\d\d"


def row(path: Place, run_id: str) -> dict[str, object]:
    with raw(path) as other:
        result = other.execute("SELECT * FROM runs WHERE id = ?", (run_id,)).fetchone()
    return dict(result)


NAME = plan_name(PLAN)


def pointers(journal: Journal, session: s.Session) -> tuple[str | None, str | None, str | None]:
    stored = journal.session(session.id)
    return stored.pending_run_id, stored.active_run_id, stored.last_run_id


@pytest.mark.spec("P17", "P18", "P25")
def test_a_plan_passes_through_its_statuses(journal: Journal, path: Place) -> None:
    session = begun(journal)
    digest = journal.draft(plan(), session.id)
    drafted = row(path, "r1")
    assert (drafted["status"], drafted["goal"]) == ("draft", "Tidy up.")
    assert "delete_file" in str(drafted["plan_json"])
    assert drafted["plan_digest"] == digest == plan_digest(PLAN)
    assert pointers(journal, session) == ("r1", None, None)

    run = journal.confirm(session.id)
    assert (run.id, run.status, run.plan) == ("r1", s.RunStatus.QUEUED, PLAN)
    assert pointers(journal, session) == (None, "r1", None)

    run = run.move(s.RunStatus.RUNNING)
    execution = s.ToolExecution(call=PLAN[0].call)
    tell(
        journal,
        session,
        "r1",
        [s.RunStarted(run=run), s.StepStarted(step=1), s.ToolStarted(step=1, execution=execution)],
    )
    going = row(path, "r1")
    assert (going["status"], going["current_step_path"]) == ("running", "1/read_file")
    assert going["last_event"] == "tool_started"
    tell(journal, session, "r1", [ended(s.RunStatus.ERROR, "disk on fire")])
    over = row(path, "r1")
    assert (over["status"], over["error"]) == ("error", "disk on fire")
    assert pointers(journal, session) == (None, None, "r1")


@pytest.mark.spec("P43")
def test_a_plan_is_a_draft_and_only_one_waits(journal: Journal) -> None:
    session = begun(journal)
    with pytest.raises(SessionError, match="is a draft, and r1 is queued"):
        journal.draft(plan().move(s.RunStatus.QUEUED), session.id)
    journal.draft(plan(), session.id)
    with pytest.raises(SessionError, match=f"{NAME} waits for you: `%agent approve {NAME}`"):
        journal.draft(plan("r2"), session.id)
    with pytest.raises(SessionError, match="not in the journal"):
        journal.draft(plan("r3"), s.Session().id)


@pytest.mark.spec("P24")
def test_a_plan_that_does_not_fit_its_digest_is_not_confirmed(
    journal: Journal, path: Place
) -> None:
    session = begun(journal)
    journal.draft(plan(), session.id)
    change = "UPDATE runs SET plan_json = replace(plan_json, 'delete_file', 'write_file')"
    journal._writer.change(lambda db: db.execute(change))
    with pytest.raises(SessionError, match="is not the one that was shown"):
        journal.confirm(session.id)
    assert row(path, "r1")["status"] == "draft"
    assert pointers(journal, session) == ("r1", None, None)


@pytest.mark.spec("P21")
def test_confirming_without_a_plan_is_an_error(journal: Journal) -> None:
    session = begun(journal)
    for answer in (journal.confirm, journal.cancel):
        with pytest.raises(SessionError, match="no pending plan"):
            answer(session.id)
        with pytest.raises(SessionError, match="no pending plan is called 'r9'"):
            answer(session.id, "r9")
    other = begun(journal)
    journal.draft(plan(), other.id)
    with pytest.raises(SessionError, match="no pending plan"):
        journal.confirm(session.id, "r1")


@pytest.mark.spec("P22")
def test_while_a_run_is_active_no_plan_is_confirmed(journal: Journal) -> None:
    session = begun(journal)
    journal.draft(plan(), session.id)
    tell(journal, session, "r2", [started("r2")])
    for named in ((), ("r1",)):
        with pytest.raises(SessionError, match="already running: r2"):
            journal.confirm(session.id, *named)
    tell(journal, session, "r2", [ended()])
    assert journal.confirm(session.id).id == "r1"
    with pytest.raises(SessionError, match=rf"already approved at {CLOCK}: {NAME}"):
        journal.confirm(session.id)


@pytest.mark.spec("P23", "P05")
def test_the_second_decision_is_refused_with_the_time_of_the_first(
    journal: Journal, path: Place
) -> None:
    session = begun(journal)
    journal.draft(plan(), session.id)
    journal.confirm(session.id, "r1")
    moment = datetime.fromisoformat(str(row(path, "r1")["confirmed_at"])).astimezone(UTC)
    text = re.escape(f"already approved at {moment.astimezone():%H:%M}: {NAME}")
    for _ in range(2):
        with pytest.raises(AgentError, match=text):
            journal.confirm(session.id, "r1")
    run = plan().move(s.RunStatus.QUEUED).move(s.RunStatus.RUNNING)
    tell(journal, session, "r1", [s.RunStarted(run=run), ended()])
    with pytest.raises(SessionError, match=rf"{text}; it is done"):
        journal.confirm(session.id, "r1")
    with pytest.raises(SessionError, match=text):
        journal.cancel(session.id, "r1")


@pytest.mark.spec("D20", "P18")
def test_a_cancelled_draft_is_never_run(journal: Journal, path: Place) -> None:
    session = begun(journal)
    journal.draft(plan(), session.id)
    journal.cancel(session.id)
    assert row(path, "r1")["status"] == "cancelled"
    assert pointers(journal, session) == (None, None, "r1")
    with pytest.raises(SessionError, match="no pending plan"):
        journal.confirm(session.id)
    problem = rf"already cancelled at {CLOCK}: {NAME}; ask for it again"
    for late in (
        lambda: journal.confirm(session.id, "r1"),
        lambda: journal.cancel(session.id, "r1"),
    ):
        with pytest.raises(SessionError, match=problem):
            late()
    for event in (started("r1"), ended()):
        journal.append(session.id, "r1", event)
    with pytest.raises(JournalError, match=problem):
        journal.flush().result()
    assert list(journal.events(session.id)) == []
    assert row(path, "r1")["status"] == "cancelled"
    assert [run.status for run in journal.runs(session.id)] == [s.RunStatus.CANCELLED]


@pytest.mark.spec("P45")
def test_a_finished_run_clears_only_pointers_to_itself(journal: Journal) -> None:
    session = begun(journal)
    tell(journal, session, "old", [started("old")])
    tell(journal, session, "new", [started("new")])
    tell(journal, session, "old", [ended()])
    assert pointers(journal, session) == (None, "new", "old")
    tell(journal, session, "new", [ended(s.RunStatus.CANCELLED)])
    assert pointers(journal, session) == (None, None, "new")
    assert journal.run("new").status is s.RunStatus.CANCELLED


# -- who is first


def race(journals: list[Journal], session_id: str) -> tuple[list[s.Run], list[AgentError]]:
    """All confirm at once."""
    won: list[s.Run] = []
    lost: list[AgentError] = []

    def confirm(journal: Journal) -> None:
        try:
            won.append(journal.confirm(session_id, "r1"))
        except AgentError as error:
            lost.append(error)

    at_once([partial(confirm, each) for each in journals])
    return won, lost


@pytest.mark.spec("P05", "P43")
@pytest.mark.parametrize(("threads", "databases"), [(2, 1), (16, 1), (16, 4)])
def test_one_of_many_threads_confirms(threads: int, databases: int, path: Place) -> None:
    journals = [Journal.open(path) for _ in range(databases)]
    session = begun(journals[0])
    journals[0].draft(plan(), session.id)
    won, lost = race([journals[n % databases] for n in range(threads)], session.id)
    assert len(won) == 1
    assert len(lost) == threads - 1
    assert all("already approved at" in str(error) for error in lost)
    for journal in journals:
        journal.close()


CONFIRM = f"""{OPEN}
from ipyagent.errors import AgentError
journal = opened(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
try:
    print("won", journal.confirm(sys.argv[2], "r1").id)
except AgentError as error:
    print("lost", error)
"""


@pytest.mark.slow
@pytest.mark.spec("P05")
def test_one_of_many_processes_confirms(journal: Journal, path: Place) -> None:
    session = begun(journal)
    journal.draft(plan(), session.id)
    command = [sys.executable, "-c", CONFIRM, str(path), session.id]
    pipe = subprocess.PIPE
    children = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(4)]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("\n")
        child.stdin.flush()
    answers = [child.communicate()[0] for child in children]
    assert sum(text.startswith("won r1") for text in answers) == 1
    assert sum(text.startswith("lost already approved at") for text in answers) == 3


# -- whatever happens


class Plans(RuleBasedStateMachine):
    """A session's plans and runs, compared with a model of the legal transitions."""

    def __init__(self) -> None:
        super().__init__()
        self.journal = Journal.open(None)
        self.session = begun(self.journal)
        self.status: dict[str, s.RunStatus] = {}
        self.confirmed: dict[str, s.Run] = {}
        self.count = 0

    def _is_active(self) -> bool:
        return bool({s.RunStatus.QUEUED, s.RunStatus.RUNNING} & set(self.status.values()))

    def _waiting(self) -> list[str]:
        return [name for name, status in self.status.items() if status is s.RunStatus.DRAFT]

    def _does(self, allowed: bool, act: object) -> None:
        if allowed:
            act()
        else:
            with pytest.raises(SessionError):
                act()

    @rule()
    def draft(self) -> None:
        self.count += 1
        name = f"r{self.count}"
        allowed = not self._waiting() and not self._is_active()
        self._does(allowed, lambda: self.journal.draft(plan(name), self.session.id))
        if allowed:
            self.status[name] = s.RunStatus.DRAFT

    @rule(which=st.integers(0, 5), named=st.booleans())
    def confirm(self, which: int, named: bool) -> None:
        name = f"r{which}" if named else next(iter(self._waiting()), None)
        allowed = self.status.get(name or "") is s.RunStatus.DRAFT and not self._is_active()

        def act() -> None:
            run = self.journal.confirm(self.session.id, name)
            assert run.plan == PLAN
            self.confirmed[run.id] = run

        self._does(allowed, act)
        if allowed:
            self.status[str(name)] = s.RunStatus.QUEUED

    @rule(which=st.integers(0, 5))
    def cancel(self, which: int) -> None:
        name = f"r{which}"
        allowed = self.status.get(name) in (s.RunStatus.DRAFT, s.RunStatus.QUEUED)
        self._does(allowed, lambda: self.journal.cancel(self.session.id, name))
        if allowed:
            self.status[name] = s.RunStatus.CANCELLED

    @rule(which=st.integers(0, 5))
    def begin(self, which: int) -> None:
        name = f"r{which}"
        if self.status.get(name) is s.RunStatus.QUEUED:
            self._tell(name, s.RunStarted(run=self.confirmed[name].move(s.RunStatus.RUNNING)))
            self.status[name] = s.RunStatus.RUNNING

    @rule()
    def begin_a_prompt(self) -> None:
        if self._is_active():  # the lock of runs sees to that
            return
        self.count += 1
        name = f"r{self.count}"
        self._tell(name, started(name))
        self.status[name] = s.RunStatus.RUNNING

    @rule(which=st.integers(0, 5), to=st.sampled_from(sorted(MOVES)))
    def finish(self, which: int, to: s.RunStatus) -> None:
        name = f"r{which}"
        if MOVES[to] or name not in self.status:
            return
        self._tell(name, ended(to))
        if to in MOVES[self.status[name]]:
            self.status[name] = to

    def _tell(self, run_id: str, event: s.Event) -> None:
        tell(self.journal, self.session, run_id, [event])

    @precondition(lambda self: self.status)
    @rule()
    def restart(self) -> None:
        for name, status in self.status.items():
            if status in (s.RunStatus.QUEUED, s.RunStatus.RUNNING):
                self.status[name] = s.RunStatus.ERROR
        self.journal.recover(self.session.id)

    @invariant()
    def the_record_says_what_happened(self) -> None:
        active = {s.RunStatus.QUEUED, s.RunStatus.RUNNING}
        going = [name for name, status in self.status.items() if status in active]
        waiting = self._waiting()
        assert len(going) <= 1
        assert len(waiting) <= 1
        pending, current, _ = pointers(self.journal, self.session)
        assert (pending, current) == (next(iter(waiting), None), next(iter(going), None))
        rows = self.journal._rows("session_id", self.session.id)
        assert {each["id"]: each["status"] for each in rows} == self.status
        for each in rows:
            assert each["record"] is None or each["plan_json"]

    def teardown(self) -> None:
        self.journal.close()


Plans.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


@pytest.mark.spec("P43", "P18", "D20")
class TestPlans(Plans.TestCase):
    """Runs the machine."""
