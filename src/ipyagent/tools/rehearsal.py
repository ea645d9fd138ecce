"""Rehearsals of code: run it on a copy of the kernel, and tell what it would change.

They see the files of the sandbox for commands, and nothing more: what a sandboxed command cannot
read, code on a copy of the kernel cannot.

A rehearsal's report was written by a process that has run hostile code, so nothing is taken on
trust. A forged report can only say what the code could have printed as well, or bind new names to
data.
"""

from __future__ import annotations

import asyncio
import builtins
import keyword
import mimetypes
import re
import stat
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args
from unicodedata import normalize

from pydantic import ValidationError

from ipyagent.errors import AgentError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.describe.safe_inspect import module_name
from ipyagent.kernel.images import as_image
from ipyagent.kernel.main_thread import without_interrupts
from ipyagent.kernel.rehearsal.confinement import Confinement, Limits, Way
from ipyagent.kernel.rehearsal.memory import describe_shared_memory, signing_keys
from ipyagent.kernel.rehearsal.performance import digest_file, start_rehearsal
from ipyagent.kernel.rehearsal.plain_cells import NotPlainError
from ipyagent.kernel.rehearsal.plain_data import read_all
from ipyagent.kernel.rehearsal.probe import Probe
from ipyagent.kernel.rehearsal.rehearser import (
    NotRehearsedError,
    Rehearsing,
    load_libraries,
    start_isolated,
)
from ipyagent.kernel.rehearsal.surroundings import PASSING
from ipyagent.kernel.variables.reach import (
    Adoption,
    list_definitions,
    list_names,
    names_of_loops,
)
from ipyagent.schema import (
    Display,
    FileEffect,
    Rehearsal,
    RehearsalOutcome,
    ToolResult,
    VariableChange,
)
from ipyagent.tools.file_change import Change
from ipyagent.tools.path_rules import STATE
from ipyagent.tools.rehearsed import UNTRIED, RehearsalContext, Rehearsed
from ipyagent.tools.sandbox import bubblewrap, seccomp
from ipyagent.tools.sandbox.protected_paths import WorkspaceScan
from ipyagent.tools.tracked_namespace import TrackedNamespace
from ipyagent.tools.workspace import Workspace

_TEXTS, _TEXT, _PATH = 30, 300, 4_096
"""Texts of a list that are taken, characters of each, and of a path."""
_IMAGES, _DISPLAYS, _CHANGES, _FILES, _DIFF = 20, 50, 200, 100, 100_000
_SHOWN = frozenset({"text/html", "text/markdown", "text/latex", "image/svg+xml"}) | {
    "application/json",
    "text/plain",
}
_PLAIN_ERRORS = {
    name
    for name, each in vars(builtins).items()
    if isinstance(each, type)
    and issubclass(each, Exception)
    and not issubclass(each, OSError | ImportError | MemoryError | EOFError | RecursionError)
} | {"UndefinedVariableError", "MergeError", "AxisError", "LinAlgError"}
"""Errors that can hardly come from the isolation."""

UNKEPT = "(Tried on a copy of the kernel: nothing that it did before the error was kept.)"
_LEFT = (
    "(Tried on a copy of the kernel, where this was left: {}. If it is needed here, send the same "
    "code again: the user is then asked.)"
)
_GONE = "({} was made on an earlier copy of the kernel and left there: make it in this code, too.)"


def judge_report(
    report: JsonDict,
    buffers: Sequence[memoryview],
    workspace: Workspace,
    existing: Mapping[str, object],
    own: Collection[str] = (),
    *,
    may_leave: bool = False,
    comes_again: bool = False,
) -> Rehearsed:
    """Return what a report means; raises NotRehearsedError if it makes no sense.

    `existing` are the variables that its data may refer to, `own` those that the run has made.
    `may_leave`: names that only loops bind may stay on the copy, and what code makes for its own
    output, unless it `comes_again`.
    """
    try:
        result = _read_result(report["result"])
        passing, loops = ({*map(str, report[each])} for each in ("passing", "loops"))
        attempts, around = report["attempts"], report["around"]
        found = Rehearsal(
            outcome=RehearsalOutcome.CHANGES,
            variables=tuple(_read_variables(report["variables"])),
            files=tuple(_read_files(report["files"], workspace)),
            result=result,
            texts=tuple(str(each)[:_TEXT] for each in (*around[:_TEXTS], *attempts[:_TEXTS])),
        )
    except (KeyError, TypeError, ValueError, AttributeError, ValidationError):
        raise NotRehearsedError("its report makes no sense") from None
    if not result.success:
        if attempts or not _is_of_code(result.error or ""):
            return Rehearsed(found)
        failed = Rehearsal(outcome=RehearsalOutcome.FAILED)
        return Rehearsed(failed, result if _is_clean(found) else result.with_note(UNKEPT))
    kept = found
    if may_leave and _shows(result) and not comes_again:
        kept = _leave_passing(found, passing, loops, PASSING)
    elif may_leave:
        kept = _leave_passing(found, (), loops, {})
    if _is_clean(kept):
        return Rehearsed(Rehearsal(outcome=RehearsalOutcome.LOOKED, left=kept.left), result)
    nodes, names = report.get("adoption"), {each.name for each in kept.variables}
    is_own = all(
        (each.change == "created" and is_bindable(each.name))
        or (each.change != "created" and each.name in own)
        for each in kept.variables
    )
    gone = [each.name for each in kept.variables if each.change == "deleted"]
    if kept.files or kept.texts or not is_own or type(nodes) is not dict:
        return Rehearsed(found)
    if nodes.keys() != names.difference(gone):
        return Rehearsed(found)
    try:
        adoption = replace(read_all(nodes, buffers, existing), gone=gone)
    except NotPlainError:
        return Rehearsed(found)
    adopted = kept.model_copy(update={"outcome": RehearsalOutcome.ADOPTED, "result": None})
    return Rehearsed(adopted, result, adoption)


def _is_clean(found: Rehearsal) -> bool:
    return not (found.variables or found.files or found.texts)


def _is_of_code(error: str) -> bool:
    """Return whether code would fail with this error outside of the isolation, too."""
    kind, _, text = error.partition(":")
    if kind != "ModuleNotFoundError":
        return kind in _PLAIN_ERRORS and text != " no running event loop"  # a fork has none
    name = text.partition("'")[2].partition("'")[0].partition(".")[0]
    return bool(name) and PathFinder.find_spec(name) is None


def _shows(result: ToolResult) -> bool:
    """Return whether there is something to look at: else the changes are what code is for."""
    return bool(result.output.strip() or result.images or result.displays)


def _leave_passing(
    found: Rehearsal,
    passing: Collection[str],
    loops: Collection[str],
    settings: Mapping[str, str],
) -> Rehearsal:
    """Return the rehearsal without what its code has made for its own output, which is named.

    That is what is `passing`, names that only `loops` bind, and `settings`, by their text.
    """
    may_go = {"created": {*passing, *loops}, "changed": loops}
    gone = [
        each.name
        for each in found.variables
        if each.name in may_go.get(each.change, ()) and is_bindable(each.name)
    ]
    return found.model_copy(
        update={
            "variables": tuple(each for each in found.variables if each.name not in gone),
            "texts": tuple(each for each in found.texts if each not in settings),
            "left": (*gone, *(settings[text] for text in found.texts if text in settings)),
        }
    )


def _read_result(data: JsonDict) -> ToolResult:
    images = (as_image(str(i["data"])) for i in data["images"][:_IMAGES])
    displays = (
        Display(
            data={kind: text for kind, text in each["data"].items() if kind in _SHOWN},
            images_before=each["images_before"],
        )
        for each in data["displays"][:_DISPLAYS]
    )
    return ToolResult(
        success=data["success"],
        output=str(data["output"]),
        error=None if data["success"] else str(data["error"]),
        for_model=data.get("for_model"),
        truncated=data.get("truncated"),
        images=tuple(each for each in images if each is not None),
        displays=tuple(displays),
    )


def _read_variables(changes: list[JsonDict]) -> Iterator[VariableChange]:
    for change in changes[:_CHANGES]:
        if len(change["name"]) > _TEXT or len(change["type"]) > _TEXT:
            raise ValueError("a name is too long")
        cut = {key: str(text)[:_TEXT] for key, text in change.items()}
        yield VariableChange.model_validate(cut)


def _read_files(entries: list[JsonDict], workspace: Workspace) -> Iterator[FileEffect]:
    """Yield the files and folders that would differ from what is there now."""
    root = workspace.root
    for entry in entries[:_FILES]:
        path, kind = Path(str(entry["path"])[:_PATH]), entry["kind"]
        exists = path.is_relative_to(root) and path.exists()
        if kind == "folder" and exists and path.is_dir():
            if stat.S_IMODE(entry["mode"]) == stat.S_IMODE(path.stat().st_mode):
                continue
        elif kind == "file" and exists and _is_same_file(entry, path):
            continue  # it was only opened for writing, as databases are
        elif kind == "deleted" and not exists:
            continue  # an overlay has it for what is in it, or it was made there before
        change: Literal["created", "changed", "deleted"] = (
            "deleted" if kind == "deleted" else "changed" if exists else "created"
        )
        name = path.relative_to(root) if path.is_relative_to(root) else path
        diff = _diff(str(name), entry.get("text"), workspace, is_new=not exists)
        end = "/" if kind in ("folder", "new folder") else ""
        yield FileEffect(path=f"{name}{end}", change=change, diff=diff)


def _is_same_file(entry: JsonDict, path: Path) -> bool:
    status, digest = path.lstat(), entry["digest"]
    is_alike = (entry["mode"], entry["time"]) == (status.st_mode, status.st_mtime_ns)
    return is_alike and digest is not None and digest == digest_file(path)


def _diff(path: str, text: object, workspace: Workspace, *, is_new: bool) -> str:
    """Return how a text file in the workspace would differ; "" if that cannot be told."""
    if not isinstance(text, str) or Path(path).is_absolute():
        return ""
    try:
        before = None if is_new else workspace.read_bytes(path)
    except AgentError:
        return ""
    return Change(path, before, text.encode(), "").diff()[:_DIFF]


def is_bindable(name: str) -> bool:
    """Return whether a name may be bound to data: none that hides or is a part of the language."""
    is_special = name.startswith("__") or keyword.iskeyword(name) or hasattr(builtins, name)
    # Another spelling of a name, which Python reads as that one, would not be the one shown.
    return name.isidentifier() and not is_special and normalize("NFKC", name) == name


_CPU_LIMITS = ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")
_MEMORY_LIMITS = ("memory.max", "memory.limit_in_bytes")


def machine_facts(groups: str) -> Iterator[str]:
    """Yield the files by which libraries choose how many threads they start, and memory they take.

    They are the same for code on a copy, which so need not be asked about for having read them.
    `groups` is the text of `/proc/self/cgroup`.
    """
    yield "/sys/devices/system/cpu"
    yield from map(str, mimetypes.knownfiles)  # by which files' kinds are told
    for line in groups.splitlines():
        _, controllers, group = line.split(":", 2)
        for controller in {"", "cpu", "memory"} & {*controllers.split(",")}:
            top = Path("/sys/fs/cgroup", controller)
            for folder in {top, top / group.lstrip("/")}:
                yield from (str(folder / name) for name in _CPU_LIMITS + _MEMORY_LIMITS)


def build_confinement(
    root: Path, secrets: Collection[str] = (), way: Way = "namespaces"
) -> Confinement:
    """Return the confinement for a workspace; raises AgentError if there is too much to scan."""
    python = bubblewrap.python_paths(str(root))
    guarded = WorkspaceScan(root, python).run()
    links, readable = bubblewrap.system_paths()
    state = (f"{root}/{STATE}/{name}" for name in bubblewrap.READABLE_STATE)
    own = str(Path(__file__).parents[2])
    groups = Path("/proc/self/cgroup").read_text()
    return Confinement(
        root=str(root),
        readable=(*readable, *sorted(python), own, *state, *machine_facts(groups)),
        links=tuple(links.items()),
        hidden_files=tuple(guarded.hidden_files),
        hidden_folders=(STATE, *guarded.hidden_folders),
        call_filter=seccomp.build_filter(processes=False, namespaces=way == "namespaces"),
        variables=frozenset(bubblewrap.kept_variables()),
        secrets=frozenset(secrets),
        way=way,
    )


_THREADS = "/proc/self/task"
_POLARS_THREAD = re.compile(r"polars-\d+\n")
"""The names of those that compute: the first computation starts them, not the import."""


class CodeRehearser:
    """Rehearses code among the variables of a namespace."""

    def __init__(self, namespace: TrackedNamespace, workspace: Workspace) -> None:
        self._namespace, self._workspace = namespace, workspace

    async def rehearse(self, codes: Sequence[str], context: RehearsalContext) -> list[Rehearsed]:
        """Run codes on a copy of the kernel, in turn; never raises but if it is cancelled."""
        begun = time.monotonic()
        try:
            found, problem = await self._try(codes, context)
        except (NotRehearsedError, AgentError, OSError, RuntimeError) as error:
            found, problem = [], str(error)
        duration = {"duration": max(0.0, time.monotonic() - begun)}
        found = [replace(e, rehearsal=e.rehearsal.model_copy(update=duration)) for e in found]
        until = next((n for n, each in enumerate(found, 1) if each.has_failed), len(found))
        if until < len(found):
            found, problem = found[:until], "a step before it failed there"
        skipped = Rehearsed(Rehearsal(outcome=RehearsalOutcome.SKIPPED, reason=problem))
        return found + [skipped] * (len(codes) - len(found))

    async def _try(
        self, codes: Sequence[str], context: RehearsalContext
    ) -> tuple[list[Rehearsed], str]:
        """Return what was found, and why the rest was not; raises the errors above."""
        threads, isolation = asyncio.get_running_loop().run_in_executor, context.isolation
        await threads(context.threads, _check_process)
        if isolation.problem == UNTRIED:
            await self._choose_way(context)
        if isolation.problem is not None:
            raise NotRehearsedError(isolation.problem)
        confinement = await threads(context.threads, self._prepare, codes, context)
        limits = Limits(seconds=context.seconds * len(codes))
        made = self._namespace.definitions_for(codes[0]) if len(codes) == 1 else ""
        start = partial(self._start, codes, confinement, limits, made)
        starting: Future[Rehearsing] = context.post(start)
        # Shielded: whoever stops waiting ends it, and its process is waited for all the same.
        reading = threads(context.threads, lambda: starting.result().finish(len(codes)))
        try:
            reports, problem = await asyncio.shield(reading)
        except asyncio.CancelledError:
            reading.add_done_callback(lambda done: done.cancelled() or done.exception())
            if not starting.cancel():
                starting.add_done_callback(_stop)
            raise
        namespace, found, left = self._namespace.plain, [], self._namespace.left
        for code, (report, buffers) in zip(codes, reports, strict=False):
            if type(written := report.get("written")) is list and written:
                namespace.written[code] = {*map(str, written)}
            existing = namespace.bindings()
            may_leave = len(codes) == 1 and context.adopts_new
            judge = partial(judge_report, may_leave=may_leave, comes_again=code in left)
            given = report, buffers, self._workspace, existing, namespace.own.names(existing)
            judged = await threads(context.threads, judge, *given)
            if judged.rehearsal.left:
                left[code] = judged.rehearsal.left
            if made and judged.rehearsal.outcome is RehearsalOutcome.CHANGES:
                # A question shows all that would run.
                judged = _missing(made)
            judged = _remind(judged, set().union(*left.values()))
            found.append(judged if context.adopts_new else judged.as_asked())
        return found, problem

    async def _choose_way(self, context: RehearsalContext) -> None:
        """Find out how rehearsals can be isolated here, if at all."""
        threads = asyncio.get_running_loop().run_in_executor
        problems: list[str] = []
        for way in get_args(Way):
            root = self._workspace.root
            confinement = await threads(context.threads, build_confinement, root, (), way)
            context.isolation.way, problem = way, await _probe(confinement, context)
            if problem is None:
                break
            problems.append(problem)
        context.isolation.problem = problem and "; ".join(dict.fromkeys(problems))

    def _prepare(self, codes: Sequence[str], context: RehearsalContext) -> Confinement:
        """Return the confinement, once the libraries that the codes import are loaded."""
        with context.isolation.loading:
            for code in codes:
                load_libraries(code)
        secrets = {*context.secrets, *signing_keys()}
        return build_confinement(self._workspace.root, secrets, context.isolation.way)

    @without_interrupts
    def _start(
        self, codes: Sequence[str], confinement: Confinement, limits: Limits, definitions: str
    ) -> Rehearsing:
        namespace = self._namespace.plain
        if any(uses_polars(code, namespace.bindings()) for code in codes):
            raise NotRehearsedError("polars does not survive a fork")
        return start_rehearsal(namespace, codes, confinement, limits, definitions)

    def take_over(self, code: str, rehearsed: Rehearsed) -> ToolResult:
        """Return the result of a look, on the main thread, as if the code had run here.

        Raises AgentError if its variables cannot be adopted any more.
        """
        assert rehearsed.result is not None  # noqa: S101 - only then it is asked for
        adoption = rehearsed.adoption or Adoption({}, set())
        result = self._namespace.take_over(code, rehearsed.result, adoption)
        passing = names_of_loops(code)
        left = ", ".join(each for each in rehearsed.rehearsal.left if each not in passing)
        return result.with_note(_LEFT.format(left), only_model=True) if left else result


def _missing(definitions: str) -> Rehearsed:
    """Return what code would come to where nobody has made what it needs."""
    error = f"NameError: name '{list_definitions(definitions)[0].name}' is not defined"
    failed = Rehearsal(outcome=RehearsalOutcome.FAILED)
    return Rehearsed(failed, ToolResult(success=False, error=error))


def _remind(found: Rehearsed, left: Collection[str]) -> Rehearsed:
    """Return what was found; where code lacks what was left on a copy, the model is told."""
    error = (found.result and found.result.error) or ""
    missing = [name for name in left if f"NameError: name '{name}' is not defined" in error]
    if found.result is None or not missing:
        return found
    note = _GONE.format(*missing)
    return replace(found, result=found.result.with_note(note, only_model=True))


def _check_process() -> None:
    """Raise NotRehearsedError if nothing can be rehearsed in this process now."""
    if sys.platform != "linux":
        raise NotRehearsedError(f"there is no isolation for this system ({sys.platform})")
    if reason := describe_shared_memory():
        raise NotRehearsedError(reason)
    torch: Any = sys.modules.get("torch")
    if getattr(torch, "cuda", None) and torch.cuda.is_initialized():
        raise NotRehearsedError("a CUDA context does not survive a fork")


async def _probe(confinement: Confinement, context: RehearsalContext) -> str | None:
    """Return why nothing can be rehearsed here, or None."""
    threads = asyncio.get_running_loop().run_in_executor
    try:
        probe = await threads(context.threads, Probe, confinement)
        await asyncio.wrap_future(context.post(probe.start))
        if problem := await threads(context.threads, probe.finish):
            return problem
        # The probe has a workspace of its own; this one may hold what cannot be covered.
        start = partial(start_isolated, (), confinement, Limits(seconds=1.0))
        empty = await asyncio.wrap_future(context.post(start))
        _, problem = await threads(context.threads, empty.finish, 0)
        return problem or None
    except OSError as error:
        return f"it could not be tried: {error}"


def _stop(started: Future[Rehearsing]) -> None:
    if started.exception() is None:
        started.result().stop()


def uses_polars(code: str, variables: Mapping[str, object]) -> bool:
    """Return whether code may use polars, whose threads run: in a fork it would wait for them."""
    if "polars" not in sys.modules or not any(map(_is_polars_thread, Path(_THREADS).iterdir())):
        return False
    for name in list_names(code, variables):
        value = variables[name]
        owner = value.__name__ if type(value) is ModuleType else module_name(type(value))
        if owner.partition(".")[0] == "polars":
            return True
    return "polars" in code


def _is_polars_thread(thread: Path) -> bool:
    try:
        return _POLARS_THREAD.fullmatch((thread / "comm").read_text()) is not None
    except OSError:  # it has ended
        return False
