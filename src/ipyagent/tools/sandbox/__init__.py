"""Commands in processes of their own: in a box of bubblewrap's where it holds, watched anywhere."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ipyagent.errors import AgentError
from ipyagent.tools.sandbox import box, job, probe
from ipyagent.tools.sandbox.guard import Guarded, Survey, put_right
from ipyagent.tools.sandbox.job import Ended
from ipyagent.tools.workspace import Workspace

_TAKEN = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/dev", "/proc", "/sys")


@dataclass(frozen=True)
class Ran:
    """A command that has run: where, how long, and what was put right after it."""

    ended: Ended
    boxed: bool
    seconds: float
    notes: tuple[str, ...] = ()


class Sandbox:
    """Where the commands of one workspace run."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._root = str(workspace.root)

    @property
    def why(self) -> str | None:
        """Why commands run outside of any box; None: they don't."""
        root = self._root
        if any(f"{taken}/".startswith(f"{root.rstrip('/')}/") for taken in _TAKEN):
            return f"{root} belongs to the system, so it cannot be the workspace of a sandbox"
        return probe.found().why

    @property
    def available(self) -> bool:
        """Whether a box is there and holds: it is tried at the first need, in about 0.1 s."""
        return self.why is None

    @property
    def unfiltered(self) -> str | None:
        """Why the box does not filter system calls; None: it does, or there is no box."""
        return probe.found().unfiltered if self.available else None

    async def run(self, command: Sequence[str], *, limit: float, shows: Sequence[str] = ()) -> Ran:
        """Run a command in the workspace for at most `limit` seconds, boxed if that is possible.

        Nothing of it is left then. `shows` names files of our own state that it is to read. Raises
        AgentError if it cannot be started.
        """
        self._check_place()
        begun = time.monotonic()
        root = self._workspace.root
        if not self.available:
            ended = await job.run(command, box.bare(), root, boxed=False, limit=limit)
            return Ran(ended, boxed=False, seconds=time.monotonic() - begun)
        self._workspace.state()  # there already, so that the command cannot make its own
        before = await asyncio.to_thread(self._survey().look)
        try:
            ended = await job.run(
                self._boxed(command, before, shows),
                box.environment(self._root),
                root,
                boxed=True,
                limit=limit,
                calls=probe.found().calls,
            )
        finally:  # also where the run is stopped
            notes = await asyncio.to_thread(self._put_right, before)
        return Ran(ended, boxed=True, seconds=time.monotonic() - begun, notes=tuple(notes))

    def _check_place(self) -> None:
        """The box is made of paths, the workspace of a descriptor: they have to agree."""
        held = self._workspace.stat(".")
        try:
            named = self._workspace.root.stat()
        except OSError:
            named = None
        if held is None or named is None or not os.path.samestat(held, named):
            raise AgentError(f"{self._root} has been moved or replaced; start the kernel anew")

    def _boxed(self, command: Sequence[str], guarded: Guarded, shows: Sequence[str]) -> list[str]:
        found = probe.found()
        made = box.arguments(self._root, guarded, found.options, shows)
        return [found.bwrap, *made, "--", *command]

    def _survey(self, before: Guarded | None = None) -> Survey:
        return Survey(self._workspace.root, box.own_places(self._root), before)

    def _put_right(self, before: Guarded) -> list[str]:
        return put_right(self._workspace, before, self._survey(before))
