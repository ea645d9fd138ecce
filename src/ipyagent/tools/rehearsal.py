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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

from ipyagent.errors import AgentError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.describe.safe_inspect import module_name
from ipyagent.kernel.main_thread import without_interrupts
from ipyagent.kernel.rehearsal.confinement import Confinement, Limits, Way
from ipyagent.kernel.rehearsal.memory import describe_shared_memory, signing_keys
from ipyagent.kernel.rehearsal.performance import start_rehearsal
from ipyagent.kernel.rehearsal.probe import Probe
from ipyagent.kernel.rehearsal.rehearser import (
    NotRehearsedError,
    Rehearsing,
    Report,
    load_libraries,
    start_isolated,
)
from ipyagent.kernel.variables.reach import (
    Adoption,
    list_definitions,
    list_names,
    loaded_names,
    names_of_loops,
    stored_names,
)
from ipyagent.schema import Rehearsal, RehearsalOutcome, ToolResult
from ipyagent.tools.path_rules import STATE
from ipyagent.tools.rehearsed import UNTRIED, KeptCopy, RehearsalContext, Rehearsed
from ipyagent.tools.reports import judge_report
from ipyagent.tools.sandbox import bubblewrap, seccomp
from ipyagent.tools.sandbox.protected_paths import WorkspaceScan
from ipyagent.tools.tracked_namespace import TrackedNamespace
from ipyagent.tools.workspace import Workspace

_LEFT = (
    "(Tried on a copy of the kernel, where this was left: {}. Later looks of this run find it "
    "there. If the user needs it, send the same code again: the user is then asked.)"
)
_GONE = (
    "(Made on an earlier copy of the kernel, and left there: {}. Make this in the same code, too.)"
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
        entries=guarded.entries if way == "namespaces" else 0,
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
        if len(codes) == 1:
            return await self._look(codes[0], confinement, context)
        limits = Limits(seconds=context.seconds * len(codes))
        starting = context.post(partial(self._start, codes, confinement, limits))
        listen = partial(Rehearsing.finish, count=len(codes))
        reports, problem = await _wait_for(starting, listen, context)
        pairs = zip(codes, reports, strict=False)
        return [await self._judge(*each, context, may_leave=False) for each in pairs], problem

    async def _look(
        self, code: str, confinement: Confinement, context: RehearsalContext
    ) -> tuple[list[Rehearsed], str]:
        """Return what one code comes to, where earlier looks left what they made.

        What needs a question is tried as it would run in the kernel, which has none of this.
        """
        namespace, calls = self._namespace.plain, context.isolation.calls
        limits = Limits(seconds=context.seconds)

        def begin(definitions: str) -> KeptCopy:
            start = partial(self._start, [code], confinement, limits, definitions)
            state, modules = calls.read_state(namespace.bindings()), frozenset(sys.modules)
            return KeptCopy(context.post(start), confinement, modules, calls, state)

        made, found, problem = self._namespace.definitions_for(code), list[Rehearsed](), ""
        copy = context.keeper.take()
        comes_again = bool(_without_loops(code, self._namespace.left.get(code, ())))
        if copy is not None and (comes_again or not copy.fits(confinement, namespace.bindings())):
            await context.end(copy)
            copy = None
        if copy is not None:
            request = copy.describe_kernel(namespace) | {"code": code, "definitions": made}
            found, problem = await self._look_on(copy, code, context, request)
        elif made:
            found, problem = await self._look_on(begin(made), code, context)
        if found and found[0].result is not None:
            return found, problem
        if found and made and confinement.way == "Landlock":
            # There, code that writes fails before it misses anything.
            return [_remind(_miss(made), code, {each.name for each in list_definitions(made)})], ""
        return await self._look_on(begin(""), code, context)

    async def _look_on(
        self,
        copy: KeptCopy,
        code: str,
        context: RehearsalContext,
        request: JsonDict | None = None,
    ) -> tuple[list[Rehearsed], str]:
        """Return what code comes to on a copy, and why that is not known; keep it if it is of use.

        `request` asks one that was kept for it.
        """
        read = Rehearsing.listen if request is None else partial(Rehearsing.go_on, request=request)
        reports, problem = await _wait_for(copy.starting, read, context)
        if problem:
            return [], problem
        copy.is_ahead = True
        context.keeper.keep(copy)
        found = await self._judge(code, reports[0], context, may_leave=context.adopts_new)
        is_of_use = request is not None or bool(_without_loops(code, found.rehearsal.left))
        if found.result is None or not is_of_use or found.is_half:
            await context.end(context.keeper.take())
            return [found], ""
        return [replace(found, copy=copy)], ""

    async def _judge(
        self, code: str, given: Report, context: RehearsalContext, *, may_leave: bool
    ) -> Rehearsed:
        """Return what a report means; if the code lacks what a copy has, the model is told."""
        threads, (report, buffers) = asyncio.get_running_loop().run_in_executor, given
        namespace, left = self._namespace.plain, self._namespace.left
        if type(written := report.get("written")) is list and written:
            namespace.written[code] = {*map(str, written)}
        existing = namespace.bindings()
        judge = partial(judge_report, may_leave=may_leave, comes_again=code in left)
        own = namespace.own.names(existing)
        parts = report, buffers, self._workspace, existing, own
        judged = await threads(context.threads, judge, *parts)
        if judged.rehearsal.left:
            left[code] = judged.rehearsal.left
        judged = _remind(judged, code, set().union(*left.values()) - existing.keys())
        return judged if context.adopts_new else judged.as_asked()

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
        self, codes: Sequence[str], confinement: Confinement, limits: Limits, definitions: str = ""
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
        copy, bindings = rehearsed.copy, self._namespace.plain.bindings()
        if copy is None:
            result = self._namespace.take_over(code, rehearsed.result, adoption)
        else:
            is_alike = copy.state == copy.calls.read_state(bindings)
            result = self._namespace.take_over(code, rehearsed.result, adoption)
            copy.is_ahead, copy.state = not is_alike, copy.calls.read_state(bindings)
        left = ", ".join(_without_loops(code, rehearsed.rehearsal.left))
        return result.with_note(_LEFT.format(left), only_model=True) if left else result


def _without_loops(code: str, left: Iterable[str]) -> list[str]:
    """Return what was left, but for names that only loops bind."""
    loops = names_of_loops(code)
    return [each for each in left if each not in loops]


def _miss(definitions: str) -> Rehearsed:
    """Return what code comes to where nobody has made what it needs."""
    error = f"NameError: name '{list_definitions(definitions)[0].name}' is not defined"
    failed = Rehearsal(outcome=RehearsalOutcome.FAILED)
    return Rehearsed(failed, ToolResult(success=False, error=error))


def _remind(found: Rehearsed, code: str, left: Collection[str]) -> Rehearsed:
    """Return what was found; where code lacks what was left on a copy, the model is told."""
    error = (found.result and found.result.error) or ""
    missing = [name for name in left if f"NameError: name '{name}' is not defined" in error]
    if found.result is None or not missing:
        return found
    others = (loaded_names(code) & {*left}) - stored_names(code)
    note = _GONE.format(", ".join(sorted({*missing, *others})))
    return replace(found, result=found.result.with_note(note, only_model=True))


async def _wait_for(
    starting: Future[Rehearsing],
    read: Callable[[Rehearsing], tuple[list[Report], str]],
    context: RehearsalContext,
) -> tuple[list[Report], str]:
    """Return what is read of a process; whoever stops waiting ends it, and it is waited for."""
    reading = context.threads.submit(lambda: read(starting.result()))
    waiting = asyncio.wrap_future(reading)
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
        if not starting.cancel() and not reading.done():
            starting.add_done_callback(_stop)
        reading.add_done_callback(partial(_end_unread, starting))
        raise


def _end_unread(starting: Future[Rehearsing], reading: Future[tuple[list[Report], str]]) -> None:
    """End a process that nobody waits for, unless it has ended because it failed."""
    if reading.exception() is None and not reading.result()[1]:
        starting.result().end()


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
