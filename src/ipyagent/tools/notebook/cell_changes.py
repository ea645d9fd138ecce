"""Changes of cells of open notebooks, kept so that they can be taken back."""

from __future__ import annotations

from dataclasses import dataclass

from ipyagent.errors import InvalidArgumentsError, PageError
from ipyagent.kernel.open_notebooks import NotebookCell, OpenNotebook


@dataclass(frozen=True)
class CellChange:
    """A cell that a call inserted (`before` is None), edited, or an undo removed (`after` is)."""

    path: str | None
    """The notebook's path as the tool got it; None: the kernel's own."""
    name: str
    number: int
    id: str
    kind: str
    before: str | None
    after: str | None

    @property
    def title(self) -> str:
        """The cell in words."""
        return f"cell {self.number} of {self.name}"

    def check(self, document: object) -> tuple[OpenNotebook, NotebookCell | None]:
        """Return the notebook, and the cell; raises AgentError if somebody changed it since."""
        if not isinstance(document, OpenNotebook):
            raise PageError(f"{self.title} stays: no page shows the notebook")
        cell = next((each for each in document.cells() if each.id == self.id), None)
        if (cell.source if cell else None) != self.after:
            raise InvalidArgumentsError(f"{self.title} has changed since, so it is left as it is")
        return document, cell

    def revert(self, document: object) -> CellChange:
        """Take the change back; return the change that this was."""
        notebook, cell = self.check(document)
        cell_id = self.id
        if cell is None:
            place = min(self.number, len(notebook.cells()))
            cell_id = notebook.insert(place, self.kind, self.before or "")
        elif self.before is None:
            notebook.remove(cell)
        else:
            notebook.replace(cell, self.before)
        return CellChange(
            self.path, self.name, self.number, cell_id, self.kind, self.after, self.before
        )
