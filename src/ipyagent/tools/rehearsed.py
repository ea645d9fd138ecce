"""Rehearsals as dispatch sees them: what is asked for, and what comes of it; the kept copy.

The copy of the kernel on which a run's looks left objects is kept for its later looks, until the
run ends, or anything happens in the kernel that it does not know of.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from threading import Lock
from types import FrameType
from typing import TYPE_CHECKING, Final, Protocol

from ipyagent.json_types import JsonDict
from ipyagent.kernel.main_thread import Post
from ipyagent.kernel.rehearsal.confinement import Way
from ipyagent.kernel.variables.reach import Adoption
from ipyagent.schema import Rehearsal, RehearsalOutcome, ToolResult

if TYPE_CHECKING:
    from ipyagent.kernel.namespace import Namespace
    from ipyagent.kernel.rehearsal.confinement import Confinement
    from ipyagent.kernel.rehearsal.rehearser import Rehearsing


State = tuple[int, int, dict[str, int]]


@dataclass
class Calls:
    """The calls of all runs in this process that may have changed something."""

    seen: int = 0
    """Counted when they begin, and when they end."""

    def read_state(self, bindings: Mapping[str, object]) -> State:
        """Return what is different once another cell or call has run, or a name was bound."""
        cells = bindings.get("In")
        count = len(cells) if isinstance(cells, list) else 0
        return count, self.seen, {name: id(value) for name, value in dict(bindings).items()}


def runs_beside(bindings: Mapping[str, object]) -> bool:
    """Return whether a thread runs code of the user's, which may change anything at any time."""
    from ipyagent.kernel.rehearsal.opaque_values import is_own_module  # most prompts run no code

    def is_users(frame: FrameType) -> bool:
        scope = frame.f_globals
        name = str(scope.get("__name__"))
        is_ours = name.partition(".")[0] == __name__.partition(".")[0]
        return scope is bindings or (is_own_module(sys.modules.get(name)) and not is_ours)

    if any(type(each) is threading.Timer for each in threading.enumerate()):
        return True
    frames = dict(sys._current_frames())
    for known in (threading.main_thread().ident, threading.get_ident()):
        frames.pop(known or 0, None)
    stacks = (traceback.walk_stack(each) for each in frames.values())
    return any(is_users(frame) for stack in stacks for frame, _ in stack)


@dataclass
class KeptCopy:
    """A copy that waits, and what the kernel was like when it was last the same."""

    starting: Future[Rehearsing]
    confinement: Confinement
    modules: frozenset[str]
    """The names of the modules that were loaded when it was made."""
    calls: Calls
    state: State
    is_ahead: bool = False
    """True: nobody has the result of its last look, so there is no kernel like it."""

    @property
    def process(self) -> Rehearsing:
        """Its process, once it was started."""
        return self.starting.result()

    def describe_kernel(self, namespace: Namespace) -> JsonDict:
        """Return what a look on it must know of the kernel."""
        bindings = namespace.bindings()
        return {
            "names": [name for name in bindings if type(name) is str],
            "own": [*namespace.own.names(bindings)],
            "modules": [*sys.modules.keys() - self.modules],
        }

    def fits(self, confinement: Confinement, bindings: Mapping[str, object]) -> bool:
        """Return whether it is still like a copy that would be made now."""
        is_alike = not self.is_ahead and self.state == self.calls.read_state(bindings)
        return is_alike and self.confinement == confinement and not runs_beside(bindings)


class Keeper:
    """Keeps at most one copy, for one run."""

    def __init__(self) -> None:
        self._copy: KeptCopy | None = None

    def keep(self, copy: KeptCopy) -> None:
        """Keep a copy; there must be none."""
        self._copy = copy

    def take(self) -> KeptCopy | None:
        """Return the copy, which is no longer kept."""
        copy, self._copy = self._copy, None
        return copy

    def close(self) -> None:
        """End the copy, if there is one; it is waited for."""
        if (copy := self.take()) is not None:
            copy.process.end()


UNTRIED: Final = "not tried yet"


@dataclass
class Isolation:
    """The isolation that this process has for rehearsals, as far as it was tried."""

    problem: str | None = UNTRIED
    """Why there is none."""
    way: Way = "namespaces"
    loading: Lock = field(default_factory=Lock)
    """Held while libraries are loaded for a rehearsal."""
    calls: Calls = field(default_factory=Calls)

    def wait_until_loaded(self) -> None:
        """Wait for the end of a load that goes on."""
        with self.loading:
            pass


@dataclass(frozen=True)
class RehearsalContext:
    """The parts of a run that a rehearsal needs."""

    post: Post
    threads: Executor
    seconds: float
    patience: float
    """Seconds that a question which comes in any case waits for the rehearsal."""
    isolation: Isolation
    secrets: Collection[str] = field(repr=False)
    """Texts that the code must not find in memory."""
    adopts_new: bool = True
    """False: new variables are asked about, too."""
    keeper: Keeper = field(default_factory=Keeper)

    async def make_way(self, *, changes: bool) -> None:
        """Wait while a library is loaded, of which code would meet no more than a part.

        If the call `changes` anything, a kept copy of the kernel as it was is ended.
        """
        if self.isolation.loading.locked():
            threads = asyncio.get_running_loop().run_in_executor
            await threads(self.threads, self.isolation.wait_until_loaded)
        if changes:
            await self.end(self.keeper.take())

    async def end(self, copy: KeptCopy | None) -> None:
        """End a copy of the kernel, if there is one; it does not stay, even if nobody waits."""
        if copy is not None:
            threads = asyncio.get_running_loop().run_in_executor
            await asyncio.shield(threads(self.threads, copy.process.end))


@dataclass(frozen=True)
class Rehearsed:
    """A rehearsal, and the result of the call if nobody need be asked."""

    rehearsal: Rehearsal
    result: ToolResult | None = None
    adoption: Adoption | None = None
    """The data that variables will be bound to."""
    copy: KeptCopy | None = None
    """The copy on which later looks can go on, once the result is that of the call."""
    is_half: bool = False
    """True: the code raised after it had changed, on the copy, what the kernel has as well."""

    def as_asked(self) -> Rehearsed:
        """Return it as a question shows it: there new variables are changes like others."""
        if self.adoption is None:
            return self
        update = {"outcome": RehearsalOutcome.CHANGES, "result": self.result}
        return Rehearsed(self.rehearsal.model_copy(update=update))

    @property
    def has_failed(self) -> bool:
        """True if the code raised."""
        result = self.result or self.rehearsal.result
        return result is not None and not result.success


class Rehearser(Protocol):
    """Runs a tool's code where it can change nothing."""

    async def rehearse(
        self, codes: Sequence[str], context: RehearsalContext
    ) -> Sequence[Rehearsed]:
        """Return what each code would change, on top of those before it.

        It has a result if it would change nothing, or if it is the only one and its new names can
        be adopted.
        """
        ...

    def take_over(self, code: str, rehearsed: Rehearsed) -> ToolResult:
        """Return that result, on the main thread, as if the code had run here."""
        ...
