"""The methods of a run that need an environment: it is taken back, repeated, or frozen."""

from __future__ import annotations

import os
from functools import partial

from ipyagent.config import base_layers, resolve_layers
from ipyagent.errors import RunFailedError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.drivers import Cell, drive_sync, stoppable
from ipyagent.kernel.shell import detect, running_shell
from ipyagent.llm import start_environ
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


def _last_environment() -> Environment:
    """Return where an agent of this process ran last; raises RunFailedError."""
    if not runtime().environments:
        raise RunFailedError("no agent has run in this process: load the extension, and ask once")
    return runtime().environments[-1]


def _replay_run(run: Run) -> Run:
    """Repeat a run where an agent of this process ran last."""
    environment, shell, cell = _last_environment(), running_shell(), Cell()
    known = environment.undo.sessions
    session = next((each for each in known if each.id == run.session_id), next(iter(known)))
    layers = base_layers(
        os.environ, start_environ(), environment.home or environment.workspace.root
    )
    frontend, config = detect(shell), resolve_layers(*layers).config
    request = RunRequest(run.prompt, config, recording=run, is_attended=frontend.can_input)
    show = SilentView if shell is None else view_for
    view = partial(show, cell, environment.approvals, frontend)
    with runtime().run_lock.hold_session(session.id), stoppable(cell):
        connect = partial(environment.client_for, config.llm.model or run.model, config.llm)
        factory = RunFactory(environment, session, connect, cell, view)
        return drive_sync(cell, factory.build(request))


def _freeze_run(run: Run) -> list[JsonDict]:
    """Return a run as plain cells, with what an agent of this process knows of its variables."""
    from ipyagent.wiring.freezing import freeze_runs, make_nodes  # most runs stay as they are

    return make_nodes(freeze_runs(_last_environment(), [run]), with_own=False)


runs.undo_run, runs.replay_run, runs.freeze_run = _undo_run, _replay_run, _freeze_run
