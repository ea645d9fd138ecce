"""The cells of a notebook as text for a model."""

from __future__ import annotations

from ipyagent.json_types import JsonDict
from ipyagent.kernel.open_notebooks import NotebookCell
from ipyagent.phrases import ellipsize, plural
from ipyagent.plaintext import strip_escapes

_MAX_OUTPUT_CHARS = 500
"""Characters of one output in this text."""


def render_notebook(name: str, cells: list[NotebookCell], running_id: str | None) -> str:
    """Return all cells with numbers, ids, kinds, sources and outputs; `running_id` asks."""
    rendered = [_render_cell(cell, is_running=cell.id == running_id) for cell in cells]
    return "\n\n".join([f"({name}, {plural(len(cells), 'cell')})", *rendered])


def _render_cell(cell: NotebookCell, *, is_running: bool) -> str:
    marks = [
        f"[{cell.number}] {cell.kind}",
        f"id={cell.id}" if cell.id else "",
        f"In[{cell.execution_count}]" if cell.execution_count else "",
        "(the cell that you answer)" if is_running else "",
    ]
    outputs = [] if is_running else [_render_output(each) for each in cell.outputs]
    lines = [f"-> {each}" for each in outputs if each]
    return "\n".join([" ".join(filter(None, marks)), cell.source, *lines])


def _render_output(output: JsonDict) -> str:
    match output:
        case {"ename": name, "evalue": value}:
            text = f"{_join_text(name)}: {_join_text(value)}"
        case {"output_type": "stream", "text": said}:
            text = _join_text(said)
        case _:
            text = _render_rich_output(output.get("data", output))
    return ellipsize(strip_escapes(text).strip(), _MAX_OUTPUT_CHARS)


def _render_rich_output(data: JsonDict) -> str:
    """Return the text of a rich output, with a note if it has an image."""
    # Format 3 has short names in the output itself.
    plain = _join_text(data.get("text/plain", data.get("text", "")))
    images = [kind for kind in data if kind.startswith("image/") or kind in _IMAGES_3]
    kinds = ", ".join(kind for kind in data if "/" in kind)
    note = f"(image: {images[0]})" if images else "" if plain else f"({kinds})" if kinds else ""
    return " ".join(filter(None, (note, plain.strip())))


_IMAGES_3 = ("png", "jpeg", "svg")


def _join_text(value: object) -> str:
    return "".join(map(str, value)) if isinstance(value, list) else str(value)
