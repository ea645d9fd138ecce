"""Rehearsals of code: run it on a copy of the kernel, and tell what it would change.

They see the files of the sandbox for commands, and nothing more: what a sandboxed command cannot
read, code on a copy of the kernel cannot.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

from ipyagent.errors import AgentError
from ipyagent.kernel.describe.safe_inspect import module_name
from ipyagent.kernel.rehearsal.confinement import Confinement, Limits, Way
from ipyagent.kernel.rehearsal.memory import describe_shared_memory, signing_keys
from ipyagent.kernel.rehearsal.performance import list_names, start_rehearsal
from ipyagent.kernel.rehearsal.probe import Probe
from ipyagent.kernel.rehearsal.rehearser import NotRehearsedError, Rehearsing, load_libraries
from ipyagent.schema import Rehearsal, RehearsalOutcome, ToolResult
from ipyagent.tools.path_rules import STATE
from ipyagent.tools.rehearsal_report import judge_report
from ipyagent.tools.rehearsed import UNTRIED, RehearsalContext, Rehearsed
from ipyagent.tools.sandbox import bubblewrap, seccomp
from ipyagent.tools.sandbox.protected_paths import WorkspaceScan
from ipyagent.tools.tracked_namespace import TrackedNamespace
from ipyagent.tools.workspace import Workspace

_LIMITS = (
    *("cpu.max", "memory.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"),
    "memory.limit_in_bytes",
)


def machine_facts(groups: str) -> Iterator[str]:
    """Yield the files by which libraries choose how many threads they start, and memory they take.

    They are the same for code on a copy, which so need not be asked about for having read them.
    `groups` is the text of `/proc/self/cgroup`.
    """
    yield "/sys/devices/system/cpu"
    for line in groups.splitlines():
        _, controllers, group = line.split(":", 2)
        for controller in {"", "cpu", "memory"} & {*controllers.split(",")}:
            top = Path("/sys/fs/cgroup", controller)
            for folder in {top, top / group.lstrip("/")}:
                yield from (str(folder / name) for name in _LIMITS)


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
        starting: Future[Rehearsing] = context.post(lambda: self._start(codes, confinement, limits))
        # Shielded: whoever stops waiting ends it, and its process is waited for all the same.
        reading = threads(context.threads, lambda: starting.result().finish_all(len(codes)))
        try:
            reports, problem = await asyncio.shield(reading)
        except asyncio.CancelledError:
            reading.add_done_callback(lambda done: done.cancelled() or done.exception())
            if not starting.cancel():
                starting.add_done_callback(_stop)
            raise
        namespace, found = self._namespace.plain, []
        for code, (report, buffers) in zip(codes, reports, strict=False):
            if type(written := report.get("written")) is list and written:
                namespace.written[code] = {*map(str, written)}
            existing = namespace.bindings()
            judging = threads(
                context.threads, judge_report, report, buffers, self._workspace, existing
            )
            found.append(await judging)
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
        for code in codes:
            load_libraries(code)
        secrets = {*context.secrets, *signing_keys()}
        return build_confinement(self._workspace.root, secrets, context.isolation.way)

    def _start(self, codes: Sequence[str], confinement: Confinement, limits: Limits) -> Rehearsing:
        namespace = self._namespace.plain
        if any(uses_polars(code, namespace.bindings()) for code in codes):
            raise NotRehearsedError("polars does not survive a fork")
        return start_rehearsal(namespace, codes, confinement, limits)

    def take_over(self, code: str, rehearsed: Rehearsed) -> ToolResult:
        """Return the result of a look, on the main thread, as if the code had run here.

        Raises AgentError if its new names cannot be adopted any more.
        """
        assert rehearsed.result is not None  # noqa: S101 - only then it is asked for
        return self._namespace.take_over(code, rehearsed.result, rehearsed.adoption)


def _check_process() -> None:
    """Raise NotRehearsedError if nothing can be rehearsed in this process now."""
    if sys.platform != "linux":
        raise NotRehearsedError(f"there is no isolation for this system ({sys.platform})")
    if reason := describe_shared_memory():
        raise NotRehearsedError(reason)
    if _has_cuda():
        raise NotRehearsedError("a CUDA context does not survive a fork")


async def _probe(confinement: Confinement, context: RehearsalContext) -> str | None:
    """Return why nothing can be rehearsed here, or None."""
    threads = asyncio.get_running_loop().run_in_executor
    try:
        probe = await threads(context.threads, Probe, confinement)
        await asyncio.wrap_future(context.post(probe.start))
        return await threads(context.threads, probe.finish)
    except OSError as error:
        return f"it could not be tried: {error}"


def _stop(started: Future[Rehearsing]) -> None:
    if started.exception() is None:
        started.result().stop()


def _has_cuda() -> bool:
    """Return whether a graphics card is in use, which a fork must not touch."""
    torch: Any = sys.modules.get("torch")
    return bool(getattr(torch, "cuda", None) and torch.cuda.is_initialized())


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
        return (thread / "comm").read_text().startswith("polars")
    except OSError:  # it has ended
        return False
