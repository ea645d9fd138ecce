"""The recording that a run repeats: where it is looked for, and why none fits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain

from ipyagent.agent.recordings import Recording, Signer
from ipyagent.agent.session.session import Session
from ipyagent.digests import digest_content, digest_json, digest_text
from ipyagent.errors import AgentError, RunFailedError, SessionError
from ipyagent.json_types import JsonDict
from ipyagent.schema import Asked, Run
from ipyagent.store.graph_file import list_notebooks
from ipyagent.store.journal import Journal
from ipyagent.tools.base import Toolbox
from ipyagent.tools.workspace import Workspace
from ipyagent.wiring.environment import Environment
from ipyagent.wiring.run_request import RunRequest


def prepare_replay(
    environment: Environment, session: Session, request: RunRequest, prompt: str, toolbox: Toolbox
) -> tuple[Asked | None, Recording | None]:
    """Return what a cell asks for, and the recording that its run repeats, if it does.

    Raises AgentError if it may only repeat one, and none fits.
    """
    if isinstance(request.recording, Recording):
        return None, request.recording
    asked, run, workspace = None, request.recording, environment.workspace
    origin = ""
    if request.replay is not None and not request.dry_run:
        asked = _describe_request(session, request, prompt, toolbox, workspace)
        key = asked.key
        session.cells.add(request.cell_id, key)
        cell = request.cell_id or key
        is_known = cell in environment.executed
        environment.executed.add(cell)
        if request.replay == "always" or (request.replay == "auto" and not is_known):
            run, origin = _find_recording(environment, session, request, asked)
        if run is None and request.replay == "always":
            raise _explain_missing(environment, session, request, asked)
    if run is None:
        return asked, None
    digest_of, repeats = partial(_digest_file, workspace), request.config.replay.repeat_services
    read = partial(_read_variables, environment)
    run = _add_children(session.journal, run)
    return asked, Recording(run, Signer(workspace.root), repeats, digest_of, read, origin=origin)


def _add_children(journal: Journal, run: Run) -> Run:
    """Return a run with the runs that its calls began, if it was not saved with them."""
    children = list(run.children)
    for name in () if children else filter(None, (each.child_id for each in run.executions)):
        with suppress(SessionError):  # it was recorded elsewhere
            children.append(_add_children(journal, journal.run(name)))
    return run.model_copy(update={"children": tuple(children)})


def _find_recording(
    environment: Environment, session: Session, request: RunRequest, asked: Asked
) -> tuple[Run | None, str]:
    """Return the run that answers the same, and where it was saved, if not in the journal.

    Without being told to, a cell repeats only its own: the same words in a new cell ask the model.
    """
    cell_id = request.cell_id if request.replay == "auto" else None
    if run := session.journal.find_recording(asked, cell_id):
        return run, ""
    saved = _list_saved(environment, request.notebook)
    same = (each for each in saved if each.asked and each.asked.key == asked.key)
    own = (each for each in same if cell_id is None or each.cell_id in (None, cell_id))
    return next(own, None), "the runs that are saved in a notebook"


def _describe_request(
    session: Session, request: RunRequest, prompt: str, toolbox: Toolbox, workspace: Workspace
) -> Asked:
    """Return what a cell asks for.

    Of the tools only the user's own count: ipyagent's are part of its version.
    """
    settings = request.config.agent
    path = settings.system_prompt_path
    options = {
        "agent": request.agent,
        "allowed": sorted(settings.allowed_tools),
        "instructions": _digest_file(workspace, path) if path else settings.system_prompt,
        "plan": request.plan,
        "answer": request.answer and request.answer.format.schema,
        "session": request.session_name,
    }
    if request.about:  # older recordings lack it
        options["about"] = request.about
    own = list[JsonDict]()
    for each in toolbox:
        if not str(getattr(each.function, "__module__", "")).startswith("ipyagent."):
            own.append(each.definition().to_dict())
    return Asked(
        prompt=digest_text(prompt),
        options=digest_json(options),
        tools=digest_json(sorted(own, key=lambda each: str(each["name"]))),
        before=session.cells.key_before(request.cell_id),
    )


def _list_saved(environment: Environment, own: str) -> Iterator[Run]:
    """Yield the runs that are saved in the notebooks beside this one, which is called `own`."""
    root = environment.workspace.root
    folders = dict.fromkeys([environment.settings_folder, root])
    return environment.recordings.list_runs(chain(*[list_notebooks(each, own) for each in folders]))


def _explain_missing(
    environment: Environment, session: Session, request: RunRequest, asked: Asked
) -> RunFailedError:
    """Return the error that nothing is recorded, with the difference to the nearest recording."""
    nearest = session.journal.find_nearest(asked)
    saved = _list_saved(environment, request.notebook)
    known = chain([nearest] if nearest else [], saved)
    found = [asked.describe_difference(run.asked) for run in known if run.asked]
    if not found:
        return RunFailedError("Nothing is recorded that this cell could replay.")
    differs = min(found, key=len)
    verb = "differ" if " and " in differs else "differs"
    return RunFailedError(f"No recording fits this cell: from the nearest, {differs} {verb}.")


def _read_variables(environment: Environment, names: Iterable[str]) -> dict[str, str]:
    """Return the contents of variables as they are now, as results have them."""
    from ipyagent.values.variables.content import describe_content  # few replays need it

    there = environment.namespace.variables()
    return {n: describe_content(there[n]) if n in there else "deleted" for n in names}


def _digest_file(workspace: Workspace, path: str) -> str | None:
    """Return the digest of a file as it is now; None for no file."""
    try:
        return digest_content(workspace.read_bytes(path))
    except AgentError:
        return None
