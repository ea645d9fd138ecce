"""Rehearsals of code: run it on a copy of the kernel, and tell what it would change.

They see the files of the sandbox for commands, and nothing more: what a sandboxed command cannot
read, code on a copy of the kernel cannot.
"""

from __future__ import annotations

import asyncio
import mimetypes
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any, get_args

from ipyagent.errors import AgentError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.threads import without_interrupts
from ipyagent.rehearsal.confinement import Confinement, Limits, Method
from ipyagent.rehearsal.in_kernel import load_libraries, restore_random_states
from ipyagent.rehearsal.on_copy import start_rehearsal
from ipyagent.rehearsal.probe import Probe
from ipyagent.rehearsal.process import (
    CopyProcess,
    NotRehearsedError,
    Report,
    start_isolated,
)
from ipyagent.rehearsal.system import describe_shared_memory
from ipyagent.schema import Rehearsal, RehearsalOutcome, ToolResult
from ipyagent.tools.path_rules import STATE
from ipyagent.tools.rehearsed import UNTRIED, RehearsalContext, Rehearsed
from ipyagent.tools.reports import judge_report
from ipyagent.tools.sandbox import bubblewrap
from ipyagent.tools.sandbox.protected_paths import WorkspaceScan
from ipyagent.tools.tracked_namespace import TrackedNamespace
from ipyagent.tools.workspace import Workspace
from ipyagent.values.describe.safe_inspect import module_name
from ipyagent.values.variables import reach

_LEFT = "(Left on the copy of the kernel where this ran: {}. To have it, send it with keep=true.)"
_GONE = (
    "(Left on an earlier copy of the kernel: {}. Make it in the same code, or send the code that "
    "makes it with keep=true.)"
)


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


def build_confinement(root: Path, method: Method = "namespaces") -> Confinement:
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
        state=STATE,
        call_filter=bubblewrap.build_filter(processes=False, namespaces=method == "namespaces"),
        variables=frozenset(bubblewrap.kept_variables()),
        method=method,
    )


_THREADS = "/proc/self/task"
_POLARS_THREAD = re.compile(r"polars-\d+\n")
"""The names of those that compute: the first computation starts them, not the import."""


class Rehearser:
    """Rehearses code among the variables of a namespace, where it can change nothing."""

    def __init__(self, namespace: TrackedNamespace, workspace: Workspace) -> None:
        self._namespace, self._workspace = namespace, workspace

    @property
    def root(self) -> str:
        """The workspace's folder."""
        return str(self._workspace.root)

    def asks_at_once(self, arguments: JsonDict) -> bool:
        """Return whether a call says itself that it changes what is there."""
        bindings = self._namespace.plain.bindings()
        code = self._namespace.plain.as_python(str(arguments.get("code")))
        bound = reach.stored_names(code) | {node.name for node in reach.list_definitions(code)}
        there = bindings.keys() - self._namespace.plain.own.names(bindings)
        return bool(arguments.get("keep") or (bound - reach.names_of_loops(code)) & there)

    async def rehearse(
        self, codes: Sequence[str], context: RehearsalContext, *, keeps: bool = False
    ) -> list[Rehearsed]:
        """Return what each code would change on a copy of the kernel, on top of those before it.

        It has a result if it would change nothing, or if it is the only one and its new names can
        be adopted; never if it `keeps` what it makes. Nothing is raised unless it is cancelled.
        """
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
        if keeps:
            found = [each.as_kept() for each in found]
        elif not context.adopts_new:
            found = [each.as_asked() for each in found]
        return found + [skipped] * (len(codes) - len(found))

    async def _try(
        self, codes: Sequence[str], context: RehearsalContext
    ) -> tuple[list[Rehearsed], str]:
        """Return what was found, and why the rest was not; raises the errors above."""
        isolation = context.isolation
        await context.in_thread(_check_process)
        if isolation.problem == UNTRIED:
            await self._choose_method(context)
        if isolation.problem is not None:
            raise NotRehearsedError(isolation.problem)
        confinement = await context.in_thread(self._prepare, codes, context)
        starting = context.post(partial(self._start, codes, confinement, context))
        reports, problem = await _wait_for(starting, len(codes), context)
        judge = partial(self._judge, sees=confinement.sees, loading=isolation.loading)
        pairs = zip(codes, reports, strict=False)
        return [await context.in_thread(judge, *each) for each in pairs], problem

    def _judge(
        self, code: str, given: Report, sees: Callable[[str], bool], loading: Lock
    ) -> Rehearsed:
        """Return what a report means; if the code lacks what a copy had, the model is told."""
        (report, buffers), namespace = given, self._namespace.plain
        if type(written := report.get("written")) is list and written:
            namespace.written[code] = {*map(str, written)}
        bindings = namespace.bindings()
        own = namespace.own.names(bindings)
        python = namespace.as_python(code)
        with loading:  # of libraries whose objects the data are
            judged = judge_report(report, buffers, self._workspace, python, bindings, own, sees)
        left = self._namespace.left
        left |= judged.left
        error = (judged.result and judged.result.error) or ""
        missing = [name for name in left if f"NameError: name '{name}' is not defined" in error]
        if judged.result is None or not missing:
            return judged
        note = _GONE.format(", ".join(sorted({*missing, *(left & reach.loaded_names(code))})))
        return replace(judged, result=judged.result.with_note(note, only_model=True))

    async def _choose_method(self, context: RehearsalContext) -> None:
        """Find out how rehearsals can be isolated here, if at all."""
        problems: list[str] = []
        for method in get_args(Method):
            root = self._workspace.root
            confinement = await context.in_thread(build_confinement, root, method)
            context.isolation.method, problem = method, await _probe(confinement, context)
            if problem is None:
                break
            problems.append(problem)
        context.isolation.problem = problem and "; ".join(dict.fromkeys(problems))

    def _prepare(self, codes: Sequence[str], context: RehearsalContext) -> Confinement:
        """Return the confinement, once the libraries that the codes import are loaded."""
        with context.isolation.loading:
            for code in codes:
                load_libraries(self._namespace.plain.as_python(code))
        return build_confinement(self._workspace.root, context.isolation.method)

    @without_interrupts
    def _start(
        self, codes: Sequence[str], confinement: Confinement, context: RehearsalContext
    ) -> CopyProcess:
        namespace, limits = self._namespace.plain, context.limits
        limits = replace(limits, seconds=limits.seconds * len(codes))
        if any(uses_polars(code, namespace.bindings()) for code in codes):
            raise NotRehearsedError("polars does not survive a fork")
        return start_rehearsal(namespace, codes, confinement, limits, context.forget)

    def take_over(self, code: str, rehearsed: Rehearsed) -> ToolResult:
        """Return the result of a look, on the main thread, as if the code had run here.

        Raises AgentError if its variables cannot be adopted any more.
        """
        assert rehearsed.result is not None  # noqa: S101 - only then it is asked for
        adoption = rehearsed.adoption or reach.Adoption({}, set())
        result = self._namespace.take_over(code, rehearsed.result, adoption)
        restore_random_states(adoption.random, self._namespace.plain.bindings())
        for chart in rehearsed.charts:
            self._namespace.plain.show_page(chart)
        left = ", ".join(rehearsed.rehearsal.left)
        return result.with_note(_LEFT.format(left), only_model=True) if left else result


async def _wait_for(
    starting: Future[CopyProcess], count: int, context: RehearsalContext
) -> tuple[list[Report], str]:
    """Return the reports of a process; whoever stops waiting ends it, and it is waited for."""
    reading = asyncio.wrap_future(context.threads.submit(lambda: starting.result().finish(count)))
    try:
        return await asyncio.shield(reading)
    except asyncio.CancelledError:
        reading.add_done_callback(lambda done: done.cancelled() or done.exception())
        if not starting.cancel():
            starting.add_done_callback(_stop)
        raise


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
    try:
        probe = await context.in_thread(Probe, confinement)
        await asyncio.wrap_future(context.post(probe.start))
        if problem := await context.in_thread(probe.finish):
            return problem
        # The probe has a workspace of its own; this one may hold what cannot be covered.
        start = partial(start_isolated, (), confinement, Limits(seconds=1.0))
        empty = await asyncio.wrap_future(context.post(start))
        _, problem = await context.in_thread(empty.finish, 0)
        return problem or None
    except OSError as error:
        return f"it could not be tried: {error}"


def _stop(started: Future[CopyProcess]) -> None:
    if started.exception() is None:
        started.result().stop()


def uses_polars(code: str, variables: Mapping[str, object]) -> bool:
    """Return whether code may use polars, whose threads run: in a fork it would wait for them."""
    if "polars" not in sys.modules or not any(map(_is_polars_thread, Path(_THREADS).iterdir())):
        return False
    for name in reach.list_names(code, variables):
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
