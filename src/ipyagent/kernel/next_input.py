"""A cell that is proposed where no page can insert one: the input that comes next."""

from __future__ import annotations

from ipyagent.kernel.protocols import Shell, kernel_of


class NextInput:
    """The next cell of a notebook, or what the next prompt of a terminal begins with."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._sources: list[str] = []

    @property
    def where(self) -> str:
        """Where the person finds it."""
        is_kernel = kernel_of(self._shell) is not None
        return "in a new cell below this one" if is_kernel else "at the next prompt"

    def add(self, source: str) -> None:
        """Propose a cell, with those proposed before: there is only one that comes next."""
        self._sources.append(source.strip("\n"))
        self._shell.set_next_input("\n\n".join(self._sources), replace=False)
