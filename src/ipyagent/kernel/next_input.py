"""A cell that is proposed as the next input if no page can insert one."""

from __future__ import annotations

from ipyagent.kernel.protocols import Shell, kernel_of


class NextInput:
    """The next cell of a notebook, or the text of the next prompt in a terminal."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._sources: list[str] = []

    @property
    def where(self) -> str:
        """The place where the user finds it."""
        is_kernel = kernel_of(self._shell) is not None
        return "in a new cell below this one" if is_kernel else "at the next prompt"

    def add(self, source: str) -> None:
        """Propose a cell together with those proposed before: only one can come next."""
        self._sources.append(source.strip("\n"))
        self._shell.set_next_input("\n\n".join(self._sources), replace=False)
