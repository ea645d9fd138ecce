"""Looking is free: code that changes nothing on a copy of the kernel is not asked about."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from harness import NO, YES, Lab
from ipyagent.agent import dispatch
from ipyagent.agent.approvals import Approval
from ipyagent.config import Config
from ipyagent.errors import AgentInterrupted
from ipyagent.redaction import HIDDEN
from ipyagent.rehearsal import in_kernel, system
from ipyagent.rehearsal.confinement import Limits
from ipyagent.schema import (
    DecidedBy,
    Decision,
    Event,
    RehearsalOutcome,
    Run,
    ToolExecution,
    ToolStarted,
    ToolStatus,
)
from ipyagent.tools.rehearsed import Isolation, RehearsalContext
from ipyagent.wiring import runtime
from ipyagent.wiring.environment import Environment
from ipyagent.wiring.undo import find_undo
from patience import wait_until
from rehearsal_trial import children, play

# The process that runs the tests is what is forked: other tests would leave threads in it.
pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("needs_isolation")]


def looked(lab: Lab, code: str, **settings: object) -> ToolExecution:
    """Let the model run some code; nobody is there to be asked."""
    run: Run = play(lab, code, **settings)
    return run.executions[0]


@pytest.mark.spec("E06")
def test_a_look_gives_its_result_unasked(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"numbers": [1, 2, 3]})
    found = looked(lab, "sum(numbers)")
    assert found.status is ToolStatus.SUCCESS, found
    assert found.result.output == "6"
    assert (found.decision, found.decided_by) == (Decision.AUTO, DecidedBy.REHEARSAL)
    assert found.rehearsal.outcome is RehearsalOutcome.LOOKED
    assert lab.watcher.asked == []
    # Views show by it what ran, in full.
    assert "tool_running" in lab.watcher.types()
    assert lab.variables == {"numbers": [1, 2, 3]}


@pytest.mark.parametrize("call_name", ["unshare", "mount"])
def test_what_a_system_refuses_for_one_way_does_not_prevent_the_other(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call_name: str,
    isolation_problems: dict[str, str | None],
) -> None:
    """Some forbid namespaces, and some that anything is mounted in them."""
    if problem := isolation_problems["Landlock"]:
        pytest.skip(problem)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(system, call_name, refuse)
    monkeypatch.setattr(runtime(), "isolation", Isolation())
    found = looked(Lab(tmp_path, {"n": 1}), "n + 1")
    assert found.rehearsal.outcome is RehearsalOutcome.LOOKED, found.rehearsal
    assert runtime().isolation.method == "Landlock"


def test_a_workspace_that_cannot_be_covered_is_looked_at_in_the_other_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolation_problems: dict[str, str | None]
) -> None:
    """An overlay does not take a folder in which another file system is mounted."""
    if problem := isolation_problems["Landlock"]:
        pytest.skip(problem)
    mount = system.mount

    def mount_elsewhere(source: str, target: str, *rest: object, **more: object) -> None:
        if source == "overlay" and target.endswith(str(tmp_path.resolve())):
            raise OSError(22, "Invalid argument")
        mount(source, target, *rest, **more)

    monkeypatch.setattr(system, "mount", mount_elsewhere)
    monkeypatch.setattr(runtime(), "isolation", Isolation())
    found = looked(Lab(tmp_path, {"n": 1}), "n + 1")
    assert found.decided_by is DecidedBy.REHEARSAL, found.rehearsal
    assert runtime().isolation.method == "Landlock"


@pytest.mark.spec("E07")
def test_code_that_fails_is_not_asked_about(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    found = looked(lab, "print('so far')\n1 / 0")
    assert found.status is ToolStatus.FAILED
    assert "ZeroDivisionError" in (found.result.error or "")
    assert found.rehearsal.outcome is RehearsalOutcome.FAILED
    assert lab.watcher.asked == []


@pytest.mark.spec("E08")
def test_new_plain_data_is_adopted_without_running_code(tmp_path: Path) -> None:
    table = pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "x"]})
    lab = Lab(tmp_path, {"table": table, "pd": pd})
    code = "sums = table.groupby('b').a.sum()\nn, names = len(sums), list(sums.index)\nsums"
    found = looked(lab, code)
    assert found.rehearsal.outcome is RehearsalOutcome.ADOPTED, found.rehearsal
    expected = table.groupby("b").a.sum()
    pd.testing.assert_series_equal(lab.variables["sums"], expected, check_exact=True)
    assert (lab.variables["n"], lab.variables["names"]) == (2, ["x", "y"])
    assert [each.name for each in found.result.variables] == ["sums", "n", "names"]
    assert "new: n" in (found.result.for_model or "")
    assert found.decided_by is DecidedBy.REHEARSAL


def test_the_size_of_a_terminal_is_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some shells export it, and pandas asks for it whenever a table is shown."""
    for name in ("COLUMNS", "LINES", "TERM"):
        monkeypatch.setenv(name, "100")
    table = pd.DataFrame({"a": range(3)})
    found = looked(Lab(tmp_path, {"table": table}), "table")
    assert found.decided_by is DecidedBy.REHEARSAL, found.rehearsal


@pytest.mark.parametrize("code", ["part = known['inner']", "part, = [*known.values()]"])
def test_a_part_of_what_is_there_is_adopted_as_that_very_object(tmp_path: Path, code: str) -> None:
    lab = Lab(tmp_path, {"known": {"inner": [1]}})
    assert looked(lab, code).status is ToolStatus.SUCCESS
    assert lab.variables["part"] is lab.variables["known"]["inner"]


@pytest.mark.parametrize(
    "code",
    [
        "len = 5",
        "known = 1",
        "del known",
        "known['inner'] = 5",
        "def known(): pass",
        "import json as known",
    ],
)
@pytest.mark.spec("E08")
def test_what_takes_something_from_the_user_is_asked_about(tmp_path: Path, code: str) -> None:
    lab = Lab(tmp_path, {"known": {"inner": [1]}})
    before = dict(lab.variables)
    found = looked(lab, code)
    assert found.status is ToolStatus.DENIED, found.rehearsal
    assert found.rehearsal.outcome is RehearsalOutcome.CHANGES
    assert lab.variables == before


@pytest.mark.spec("E11")
def test_a_change_is_asked_about_and_shown_beforehand(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"numbers": [1, 2, 3]})
    found = play(lab, "numbers.append(4)", answer=NO).executions[0]
    assert found.status is ToolStatus.DENIED
    assert found.rehearsal.outcome is RehearsalOutcome.CHANGES
    assert [each.name for each in found.rehearsal.variables] == ["numbers"]
    assert lab.variables == {"numbers": [1, 2, 3]}
    assert len(lab.watcher.asked) == 1
    # It was shown beside the question, with what the code put out there; that is not kept.
    [shown] = [each for each in lab.watcher.events if each.type == "tool_rehearsed"]
    assert shown.rehearsal.result is not None
    assert found.rehearsal.result is None


def test_the_report_beside_a_question_tells_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_PASSWORD", "tr0ub4dor&3")
    lab = Lab(tmp_path, {"word": "", "parts": ["tr0ub4dor", "3"]})
    play(lab, "word = '&'.join(parts)", answer=NO)
    [approval] = lab.watcher.asked
    assert isinstance(approval.subject, ToolExecution)
    [change] = approval.subject.rehearsal.variables
    assert change.summary == f"'' → '{HIDDEN}'"


@pytest.mark.parametrize(
    "code",
    [
        "os.remove('kept/a.txt'); os.rmdir('kept'); os.mkdir('kept')",
        "os.remove('a.txt'); os.mkdir('a.txt')",
        "os.chmod('kept', 0o700)",
    ],
)
def test_a_folder_that_is_not_what_it_was_is_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    (tmp_path / "kept").mkdir(mode=0o755)
    for name in ("a.txt", "kept/a.txt"):
        (tmp_path / name).write_text("text")
    monkeypatch.chdir(tmp_path)
    found = looked(Lab(tmp_path, {"os": os}), code)
    assert found.status is ToolStatus.DENIED, found.rehearsal
    assert [each.change for each in found.rehearsal.files], found.rehearsal


@pytest.mark.parametrize("code", ["_.append(2)", "_12.append(2)", "Out[12].append(2)"])
def test_a_change_through_a_name_of_the_shell_is_asked_about(tmp_path: Path, code: str) -> None:
    numbers = [1]
    given = {"numbers": numbers, "_": numbers, "_12": numbers, "Out": {12: numbers}}
    assert looked(Lab(tmp_path, dict(given)), code).status is ToolStatus.DENIED
    look = code.removesuffix(".append(2)")
    assert looked(Lab(tmp_path, dict(given)), look).decided_by is DecidedBy.REHEARSAL


def test_what_was_approved_runs_for_real(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"numbers": [1]})
    run = play(lab, "numbers.append(2)", answer=YES)
    assert run.executions[0].decided_by is DecidedBy.BUTTON
    assert lab.variables["numbers"] == [1, 2]


def test_what_is_approved_while_its_library_is_loaded_waits_for_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else code meets a part of it, as ours does that looks for figures of matplotlib."""
    package = tmp_path / "site-packages" / "slow_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "import sys\nsys.begun.set()\nsys.loaded.wait(9)\npart = 1\n"
    )
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setattr(in_kernel, "LIBRARIES", {"slow_package"})
    ask_at_once(monkeypatch)
    begun, loaded, reached = threading.Event(), threading.Event(), threading.Event()
    monkeypatch.setattr(sys, "begun", begun, raising=False)
    monkeypatch.setattr(sys, "loaded", loaded, raising=False)

    def hear(event: Event) -> None:
        if event.type == "tool_running":
            threading.Thread(target=lambda: reached.wait(0.5) or loaded.set()).start()
        elif event.type == "tool_finished":
            loaded.set()

    def answer(approval: Approval) -> None:
        def approve() -> None:
            begun.wait(9)
            lab.environment.approvals.decide(approval.id, YES)

        threading.Thread(target=approve).start()

    lab = Lab(tmp_path, {"reached": reached, "part": 0})
    code = "import sys\nreached.set()\npart = sys.modules['slow_package'].part"
    code += "\nimport slow_package\npart"
    run = play(lab, code, answer=answer, heard=hear)
    result = run.executions[0].result
    assert (result.error, result.output) == (None, "1")


class AnnouncedLock:
    """A lock that tells when somebody waits for it."""

    def __init__(self) -> None:
        self._lock, self.asked = threading.Lock(), threading.Event()
        self.release, self.locked = self._lock.release, self._lock.locked

    def acquire(self) -> bool:
        self.asked.set()
        return self._lock.acquire()

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        self.release()


async def test_a_stop_while_libraries_are_loaded_keeps_nobody_from_loading_more() -> None:
    loading = AnnouncedLock()
    loading.acquire()
    loading.asked.clear()
    with ThreadPoolExecutor() as threads:
        isolation = Isolation(loading=loading)
        context = RehearsalContext(lambda job: Future(), threads, Limits(), isolation)
        waiting = asyncio.create_task(context.wait_until_loaded())
        await asyncio.to_thread(loading.asked.wait)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        loading.release()
    assert not loading.locked()


async def test_a_copy_that_does_not_begin_after_a_stop_is_no_error_of_anybody(
    tmp_path: Path,
) -> None:
    loop, posted, starting = asyncio.get_running_loop(), asyncio.Event(), Future[Any]()
    errors = list[Any]()
    loop.set_exception_handler(lambda _, context: errors.append(context))
    starting.set_running_or_notify_cancel()

    def post(job: object) -> Future[Any]:
        loop.call_soon_threadsafe(posted.set)
        return starting

    tool = Lab(tmp_path).environment.toolset.build(Config()).get("run_python")
    assert tool.make_rehearser is not None
    with ThreadPoolExecutor() as threads:
        context = RehearsalContext(post, threads, Limits(), Isolation(problem=None))
        trying = asyncio.create_task(tool.make_rehearser().rehearse(("1",), context))
        await posted.wait()
        trying.cancel()
        await asyncio.wait([trying])
        starting.set_exception(RuntimeError("KeyboardInterrupt on the main thread"))
    for _ in range(5):  # until the loop has what the threads told it
        await asyncio.sleep(0)
    del trying
    gc.collect()
    assert errors == []


def test_a_write_past_pandas_is_asked_about_told_and_taken_back(tmp_path: Path) -> None:
    table = pd.DataFrame({"a": [1, 2, 3], "b": [4, 5, 6]})

    def clear(column: str) -> None:
        getattr(table[column], "_val" + "ues")[0] = 0

    lab = Lab(tmp_path, {"table": table, "clear": clear})
    code = "clear('a'); table.a.sum()"
    found = play(lab, code, answer=NO).executions[0]
    assert (found.status, table.a[0]) == (ToolStatus.DENIED, 1)
    assert found.rehearsal.texts == ("writes into the memory of table, past pandas",)
    run = play(lab, code, answer=YES)
    (change,) = run.executions[0].result.variables
    assert (change.name, change.summary, table.a[0]) == ("table", "a: 1 value changed", 0)
    find_undo(lab.environment, [run], "").run(dry_run=False)
    assert lab.variables["table"].a.tolist() == [1, 2, 3]


def test_what_only_the_rehearsal_saw_is_named_by_the_undo(tmp_path: Path) -> None:
    def counter() -> Callable[[], int]:
        count = 0

        def step() -> int:
            nonlocal count
            count += 1
            return count

        return step

    lab = Lab(tmp_path, {"numbers": [1], "step": counter()})
    code = "numbers.append(step())"
    run = play(lab, code, answer=YES)
    report = find_undo(lab.environment, [run], "").run(dry_run=False)
    assert lab.variables["numbers"] == [1]
    assert lab.variables["step"]() == 2
    (skipped,) = report.skipped
    assert skipped.startswith("step stays as it is: it was changed inside")


def ask_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no question wait for its rehearsal that need not."""
    monkeypatch.setattr(Environment, "page_is_open", True)
    monkeypatch.setattr(dispatch, "_PATIENCE", 0.0)


def test_a_look_takes_the_time_that_it_takes_before_there_is_a_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_at_once(monkeypatch)
    lab = Lab(tmp_path, {"numbers": [1, 2]})
    code = "sum(n % 7 for n in range(2_000_000))"
    found = play(lab, code, rehearse_seconds=0.01).executions[0]
    assert lab.watcher.asked == []
    assert (found.status, found.decided_by) == (ToolStatus.SUCCESS, DecidedBy.REHEARSAL)


@pytest.mark.spec("E06")
def test_a_question_waits_for_the_look_that_may_make_it_unnecessary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_at_once(monkeypatch)
    lab = Lab(tmp_path, {"numbers": [1, 2]})
    assert looked(lab, "sum(numbers)").decided_by is DecidedBy.REHEARSAL
    assert "approval_requested" not in lab.watcher.types()
    [begun] = [each for each in lab.watcher.events if isinstance(each, ToolStarted)]
    assert begun.execution.rehearsal.outcome is RehearsalOutcome.TRYING


def test_code_that_changes_a_variable_by_its_text_is_asked_about_while_it_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question stays, whatever is found: one that goes by itself would teach to ignore it."""
    ask_at_once(monkeypatch)
    lab = Lab(tmp_path, {"numbers": [1]})

    def approve(event: Event) -> None:
        if event.type == "tool_rehearsed":
            (asked,) = lab.watcher.asked
            lab.environment.approvals.decide(asked.id, YES)

    play(lab, "numbers = numbers", answer=lambda _: None, heard=approve)
    types = lab.watcher.types()
    assert types.index("approval_requested") < types.index("tool_rehearsed")
    (found,) = [e.execution for e in lab.watcher.events if e.type == "tool_finished"]
    assert (found.status, found.decided_by) == (ToolStatus.SUCCESS, DecidedBy.BUTTON)


def test_a_click_before_a_look_has_ended_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_at_once(monkeypatch)
    lab = Lab(tmp_path, {"numbers": [1]})
    found = play(lab, "numbers = [1, 2]", answer=YES).executions[0]
    assert (found.status, found.decided_by) == (ToolStatus.SUCCESS, DecidedBy.BUTTON)
    assert (found.rehearsal, lab.variables["numbers"]) == (None, [1, 2])


@pytest.mark.spec("E12")
def test_settings_rules_and_modes_switch_looks_off(tmp_path: Path) -> None:
    for settings in (
        {"look_freely": False},
        {"confirm_mode": "confirm-all"},
        {"rehearse_seconds": 0},
        {"settings": {"policy": {"rules": [{"tool": "run_python", "effect": "ask"}]}}},
        # Code could read what the rules keep from being read, or from being read unasked.
        {"settings": {"policy": {"rules": [{"effect": "deny", "path": "patients/**"}]}}},
        {"settings": {"policy": {"rules": [{"effect": "ask", "path": "patients/**"}]}}},
    ):
        found = looked(Lab(tmp_path), "1 + 1", **settings)
        assert found.status is ToolStatus.DENIED, settings


@pytest.mark.spec("E12")
def test_new_variables_are_asked_about_where_the_user_wants_that(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"numbers": [1, 2]})
    found = looked(lab, "total = sum(numbers)", adopt_new=False)
    assert found.status is ToolStatus.DENIED
    assert found.rehearsal.outcome is RehearsalOutcome.CHANGES
    assert [each.name for each in found.rehearsal.variables] == ["total"]
    assert "total" not in lab.variables
    assert looked(lab, "sum(numbers)", adopt_new=False).decided_by is DecidedBy.REHEARSAL


def test_polars_is_not_tried_once_its_threads_run(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"a": [1, 2]})
    table.lazy().group_by("a").agg(polars.len()).collect()
    lab = Lab(tmp_path, {"table": table, "pl": polars, "numbers": [1, 2]})
    for code in ("table.shape", "pl.Series([1])"):
        found = looked(lab, code)
        assert found.rehearsal.reason == "polars does not survive a fork"
    assert looked(lab, "sum(numbers)").decided_by is DecidedBy.REHEARSAL


on_fork: list[Callable[[], None]] = []
os.register_at_fork(after_in_parent=lambda: [each() for each in on_fork])


def test_a_stop_in_the_midst_of_a_fork_is_kept_until_that_is_done(tmp_path: Path) -> None:
    """Raised there it would be lost, and logging's lock stay taken."""
    lab = Lab(tmp_path, {"numbers": [1]})
    looked(lab, "sum(numbers)")
    before = children()
    on_fork.append(lambda: signal.raise_signal(signal.SIGINT))
    try:
        with pytest.raises(AgentInterrupted):
            play(lab, "while True: pass", rehearse_seconds=60.0)
    finally:
        on_fork.clear()
    wait_until(lambda: children() == before)


def test_stopping_the_run_ends_the_copy(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"numbers": [1]})
    looked(lab, "sum(numbers)")  # from here on it is known that it works
    before = children()  # of other tests, such as kernels

    def stop() -> None:
        wait_until(lambda: children() != before)
        lab.cell.stop()

    def watch(event: Event) -> None:
        if isinstance(event, ToolStarted):
            threading.Thread(target=stop).start()

    with pytest.raises(AgentInterrupted):
        play(lab, "while True: pass", heard=watch, rehearse_seconds=60.0)
    wait_until(lambda: children() == before)
