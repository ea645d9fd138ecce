"""Commands in processes of their own: sandboxed by bubblewrap if it works, supervised always."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass

from ipyagent.errors import AgentError
from ipyagent.tools.sandbox import bubblewrap, process
from ipyagent.tools.sandbox.process import ProcessOutcome
from ipyagent.tools.sandbox.protected_paths import ProtectedPaths, WorkspaceScan, undo_harm
from ipyagent.tools.workspace import Workspace

_SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/dev", "/proc", "/sys")


@dataclass(frozen=True)
class SandboxResult:
    """A command's outcome, its place, and changes undone after it."""

    outcome: ProcessOutcome
    sandboxed: bool
    notes: tuple[str, ...] = ()


class Sandbox:
    """The sandbox for the commands of one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._root = str(workspace.root)

    @property
    def unavailable_reason(self) -> str | None:
        """Why commands run without a sandbox; None: they run in it."""
        root = self._root
        if any(f"{taken}/".startswith(f"{root.rstrip('/')}/") for taken in _SYSTEM_FOLDERS):
            return f"{root} belongs to the system, so it cannot be the workspace of a sandbox"
        return bubblewrap.detect_sandbox().problem

    @property
    def available(self) -> bool:
        """True if a sandbox is available and works; tried when first needed, in about 0.1 s."""
        return self.unavailable_reason is None

    @property
    def unfiltered_reason(self) -> str | None:
        """Why the sandbox does not filter system calls; None: it does, or there is no sandbox."""
        return bubblewrap.detect_sandbox().unfiltered_reason if self.available else None

    async def run(
        self, command: Sequence[str], *, seconds: float, readable_state: Sequence[str] = ()
    ) -> SandboxResult:
        """Run a command in the workspace for at most `seconds`, sandboxed if possible.

        Afterwards none of its processes is left. `readable_state` names files of our own state that
        it may read. Raises AgentError if it cannot be started.
        """
        self._check_root()
        root = self._workspace.root
        if not self.available:
            ended = await process.run(
                command,
                bubblewrap.unsandboxed_environment(),
                root,
                sandboxed=False,
                seconds=seconds,
            )
            return SandboxResult(ended, sandboxed=False)
        self._workspace.state_folder()  # there already, so that the command cannot make its own
        before = await asyncio.to_thread(self._survey().run)
        try:
            ended = await process.run(
                self._bubblewrap_command(command, before, readable_state),
                bubblewrap.environment(self._root),
                root,
                sandboxed=True,
                seconds=seconds,
                seccomp_filter=bubblewrap.detect_sandbox().seccomp_filter,
            )
        finally:  # also if the run is stopped
            notes = await asyncio.to_thread(self._clean_up, before)
        return SandboxResult(ended, sandboxed=True, notes=tuple(notes))

    def _check_root(self) -> None:
        """Raise if the path and the descriptor of the workspace disagree: paths are mounted."""
        opened = self._workspace.stat(".")
        try:
            named = self._workspace.root.stat()
        except OSError:
            named = None
        if opened is None or named is None or not os.path.samestat(opened, named):
            raise AgentError(f"{self._root} has been moved or replaced; start the kernel anew")

    def _bubblewrap_command(
        self, command: Sequence[str], guarded: ProtectedPaths, shows: Sequence[str]
    ) -> list[str]:
        support = bubblewrap.detect_sandbox()
        arguments = bubblewrap.build_arguments(self._root, guarded, support.options, shows)
        return [support.bwrap, *arguments, "--", *command]

    def _survey(self, before: ProtectedPaths | None = None) -> WorkspaceScan:
        return WorkspaceScan(self._workspace.root, bubblewrap.python_paths(self._root), before)

    def _clean_up(self, before: ProtectedPaths) -> list[str]:
        return undo_harm(self._workspace, before, self._survey(before))
