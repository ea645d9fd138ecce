"""The methods of a run that need an environment: it is taken back, repeated, or frozen."""

from __future__ import annotations

from functools import partial

from ipyagent.agent.session.session import Session
from ipyagent.errors import RunFailedError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.drivers import Cell, drive_sync, stoppable
from ipyagent.kernel.shell import detect, running_shell
from ipyagent.schema import Run, runs
from ipyagent.ui.views import SilentView, view_for
from ipyagent.wiring.environment import Environment
from ipyagent.wiring.run_request import RunRequest
from ipyagent.wiring.run_task import RunFactory
from ipyagent.wiring.runtime import runtime
from ipyagent.wiring.undo import undo_of_run


def _undo_run(run: Run, *, dry_run: bool = False) -> runs.UndoReport:
    """Take back a run of any agent in this process."""
    undos = [undo_of_run(each, run) for each in runtime().environments]
    found = next((each for each in reversed(undos) if each.records), None)
    if found is None:
        return runs.UndoReport()
    with runtime().run_lock.hold_all():
        return found.run(dry_run=dry_run)


NO_AGENT = (
    "no agent has run in this process: load the extension, and ask once, or use `agent.replay(run)`"
)


def _last_environment() -> Environment:
    """Return where an agent of this process ran last; raises RunFailedError."""
    if not runtime().environments:
        raise RunFailedError(NO_AGENT)
    return runtime().environments[-1]


def _replay_run(run: Run) -> Run:
    """Repeat a run with the agent whose session it is, or with the one that ran last."""
    used = [(each, session) for each in runtime().environments for session in each.undo.sessions]
    own = [pair for pair in used if pair[1].id == run.session_id]
    if not used:
        raise RunFailedError(NO_AGENT)
    return replay_run(run, *(own or used)[-1])


def replay_run(run: Run, environment: Environment, session: Session) -> Run:
    """Run the calls of a run again in an environment, without a model; return the new run."""
    shell, cell = running_shell(), Cell()
    frontend, config = detect(shell), environment.settings()
    request = RunRequest(run.prompt, config, recording=run, is_attended=frontend.can_input)
    show = SilentView if shell is None else view_for
    view = partial(show, cell, environment.approvals, frontend)
    with runtime().run_lock.hold_session(session.id), stoppable(cell):
        factory = RunFactory(environment, session, environment.connect, cell, view)
        return drive_sync(cell, factory.build(request))


def _freeze_run(run: Run, environment: Environment | None = None) -> list[JsonDict]:
    """Return a run as plain cells, with what an agent of this process knows of its variables."""
    from ipyagent.wiring.freezing import freeze_runs, make_nodes  # most runs stay as they are

    return make_nodes(freeze_runs(environment or _last_environment(), [run]), with_own=False)


def freeze_for_page(environment: Environment, run: Run) -> list[JsonDict]:
    """Return a run as plain cells for its page, which say that nobody has tried them."""
    nodes = _freeze_run(run, environment)
    remark = f"# Unverified: `%agent freeze {run.id} --verify` tries it in a fresh kernel."
    nodes[0]["source"] = f"{remark}\n{nodes[0]['source']}"
    return [{"kind": each["cell_type"], "source": each["source"]} for each in nodes]


runs.undo_run, runs.replay_run, runs.freeze_run = _undo_run, _replay_run, _freeze_run
