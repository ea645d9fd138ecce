"""Rehearsals as dispatch sees them: what is asked for, and what comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from threading import Lock
from typing import Final, Protocol

from ipyagent.kernel.main_thread import Post
from ipyagent.kernel.rehearsal.confinement import Way
from ipyagent.kernel.variables.reach import Adoption
from ipyagent.schema import Rehearsal, RehearsalOutcome, ToolResult
from ipyagent.tools.kept_copies import Calls, Keeper, KeptCopy

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
    """Seconds that a question waits for the rehearsal which may make it unnecessary."""
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
