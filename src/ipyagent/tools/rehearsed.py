"""Rehearsals as dispatch sees them: what is asked for, and what comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Final, TypeVar

from ipyagent.kernel.displays import PageBundle
from ipyagent.kernel.threads import Post
from ipyagent.rehearsal.confinement import Limits, Method
from ipyagent.schema import Rehearsal, RehearsalOutcome, ToolResult
from ipyagent.values.variables.reach import Adoption

T = TypeVar("T")

UNTRIED: Final = "not tried yet"


@dataclass
class Isolation:
    """The isolation that this process has for rehearsals, as far as it was tried."""

    problem: str | None = UNTRIED
    """Why there is none."""
    method: Method = "namespaces"
    loading: Lock = field(default_factory=Lock)
    """Held while libraries are loaded for a rehearsal."""


@dataclass(frozen=True)
class RehearsalContext:
    """The parts of a run that a rehearsal needs."""

    post: Post
    threads: Executor
    limits: Limits
    isolation: Isolation
    seconds: float | None = None
    """Seconds of processor time for code about which the user is asked while it is tried.

    None: nobody is asked before it ends, since the question could not be taken back.
    """
    forget: Callable[[], object] = lambda: None
    """Empties our own objects that hold keys, on a copy of the kernel."""
    adopts_new: bool = True
    """False: new variables are asked about, too."""

    def in_thread(self, function: Callable[..., T], *arguments: object) -> asyncio.Future[T]:
        """Call a function beside the run's loop."""
        return asyncio.get_running_loop().run_in_executor(self.threads, function, *arguments)

    def beside_question(self) -> RehearsalContext | None:
        """Return the context for code about which the user is asked meanwhile, if there is any."""
        if self.seconds is None:
            return None
        return replace(self, limits=replace(self.limits, seconds=self.seconds))

    async def wait_until_loaded(self) -> None:
        """Wait while a library is loaded, of which code would meet no more than a part."""

        def wait() -> None:
            with self.isolation.loading:
                pass

        if self.isolation.loading.locked():
            await self.in_thread(wait)


@dataclass(frozen=True)
class Rehearsed:
    """A rehearsal, and the result of the call if nobody need be asked."""

    rehearsal: Rehearsal
    result: ToolResult | None = None
    adoption: Adoption | None = None
    """The data that variables will be bound to."""
    asked: Rehearsal | None = None
    """The rehearsal as a question shows it, where new variables are changes like others."""
    charts: tuple[PageBundle, ...] = ()
    """Charts for the page, drawn from data alone."""
    has_failed: bool = False
    """True if the code raised."""
    left: frozenset[str] = frozenset()
    """Variables that stay on the copy."""

    def as_asked(self) -> Rehearsed:
        """Return it as a question about new variables shows it, if there are any."""
        is_adopted = self.rehearsal.outcome is RehearsalOutcome.ADOPTED
        return Rehearsed(self.asked) if is_adopted and self.asked else self

    def as_kept(self) -> Rehearsed:
        """Return it as a question shows it about code that is to run in the kernel."""
        return self if self.has_failed else Rehearsed(self.asked or self.rehearsal)
