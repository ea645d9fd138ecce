"""The cells of a notebook as text for a model."""

from __future__ import annotations

from ipyagent.json_types import JsonDict
from ipyagent.kernel.documents import NotebookCell
from ipyagent.plaintext import strip_escapes

_LONG = 500
"""Characters of one output that are told."""


def notebook_text(name: str, cells: list[NotebookCell], running: str | None) -> str:
    """All cells with their numbers, ids, kinds, sources and outputs; `running` asks."""
    told = [_cell(cell, is_running=cell.id == running) for cell in cells]
    count = f"{len(cells)} cell{'s' * (len(cells) != 1)}"
    return "\n\n".join([f"({name}, {count})", *told])


def _cell(cell: NotebookCell, *, is_running: bool) -> str:
    marks = [
        f"[{cell.number}] {cell.kind}",
        f"id={cell.id}" if cell.id else "",
        f"In[{cell.execution_count}]" if cell.execution_count else "",
        "(the cell that you answer)" if is_running else "",
    ]
    outputs = [] if is_running else [_output(each) for each in cell.outputs]
    lines = [f"-> {each}" for each in outputs if each]
    return "\n".join([" ".join(filter(None, marks)), cell.source, *lines])


def _output(output: JsonDict) -> str:
    match output:
        case {"ename": name, "evalue": value}:
            text = f"{_joined(name)}: {_joined(value)}"
        case {"output_type": "stream", "text": said}:
            text = _joined(said)
        case _:
            text = _display(output.get("data", output))
    text = strip_escapes(text).strip()
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"


def _display(data: JsonDict) -> str:
    """What is told of a rich output: its text, and that there is an image."""
    # Format 3 has short names in the output itself.
    plain = _joined(data.get("text/plain", data.get("text", "")))
    images = [kind for kind in data if kind.startswith("image/") or kind in _IMAGES_3]
    kinds = ", ".join(kind for kind in data if "/" in kind)
    note = f"(image: {images[0]})" if images else "" if plain else f"({kinds})" if kinds else ""
    return " ".join(filter(None, (note, plain.strip())))


_IMAGES_3 = ("png", "jpeg", "svg")


def _joined(value: object) -> str:
    return "".join(map(str, value)) if isinstance(value, list) else str(value)
