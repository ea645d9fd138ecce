"""The copy of the kernel on which a run's looks left objects: its later looks go on there.

It lasts until the run ends, or anything happens in the kernel that it does not know of.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING

from ipyagent.json_types import JsonDict

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
    sources: dict[str, None] = field(default_factory=dict)
    """The sources of what was read on it, and may be in what was left there."""

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
