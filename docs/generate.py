"""Write what comes from the code: executed notebooks, and the tables of the reference pages.

The tables are kept in the repository, where a code host shows them: `python docs/generate.py`
writes them again, and a test compares them.
"""

from __future__ import annotations

import ast
import inspect
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from ipyagent.config import Config
from ipyagent.config.rules import Section
from ipyagent.config.sections import format_value, iter_settings
from ipyagent.magic.commands import COMMANDS, TAKES
from ipyagent.magic.options import options_help
from ipyagent.syntax import parse

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
REFERENCE = Path(__file__).parent / "reference"


def generate(folder: Path) -> None:
    """Write all of them into `folder`, anew."""
    shutil.rmtree(folder, ignore_errors=True)
    tour = folder / "tour"
    shutil.copytree(NOTEBOOKS, tour, ignore=shutil.ignore_patterns(".*", "demo.py"))
    for notebook in sorted(tour.glob("*.ipynb")):
        execute(notebook)
    (folder / "rooms").mkdir()
    for readme in sorted((NOTEBOOKS.parent / "src/ipyagent").glob("*/README.md")):
        (folder / "rooms" / f"{readme.parent.name}.md").write_text(readme.read_text())


def execute(path: Path) -> None:
    """Run a notebook in place, and keep its outputs as HTML, or else as text."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, kernel_name="python3", timeout=120)
    client.extra_arguments = ["--log-level=ERROR"]
    client.resources = {"metadata": {"path": str(path.parent)}}
    client.execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            kept = "text/html" if "text/html" in data else "text/plain"
            if kept in data:
                output["data"] = {kept: data[kept]}
    nbformat.write(notebook, path)


def command_rows() -> Iterator[str]:
    """Yield a table of the subcommands of `%agent`."""
    yield from ("| command | meaning |", "|---|---|")
    for name, command in COMMANDS.items():
        if name:
            cells = f"%agent {name} {TAKES.get(name, '')}".rstrip(), command.__doc__ or ""
            called, meaning = (each.replace("|", "\\|") for each in cells)
            yield f"| `{called}` | {meaning} |"


def settings_rows() -> Iterator[str]:
    """Yield a table of all settings: key, default, meaning."""
    yield from ("| setting | default | meaning |", "|---|---|---|")
    meanings = dict(iterate_meanings(Config, ""))
    for key, default in iter_settings(Config()):
        name, value = ".".join(key), format_value(default)
        yield f"| `{name}` | {f'`{value}`' if value else ''} | {meanings[name]} |"


def iterate_meanings(section: type[Section], prefix: str) -> Iterator[tuple[str, str]]:
    """Yield each setting's dotted key and the docstring below its field."""
    (definition,) = parse(inspect.getsource(section)).body
    docs = {
        ast.unparse(field.target): ast.literal_eval(text.value)
        for field, text in pairwise(ast.iter_child_nodes(definition))
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
    }
    for name, field in section.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            yield from iterate_meanings(field.annotation, f"{prefix}{name}.")
        else:
            yield prefix + name, " ".join(docs.get(name, "").split())


TABLES: dict[str, Callable[[], Iterable[str]]] = {
    "options": lambda: ("```text", options_help(), "```"),
    "commands": command_rows,
    "settings": settings_rows,
}


def fill(page: str) -> str:
    """Return a page with the tables between its marks as the code has them now."""
    for name, rows in TABLES.items():
        before, mark, rest = page.partition(f"<!-- {name} -->\n")
        if mark:
            end = f"\n<!-- /{name} -->"
            page = "\n".join([before + mark, *rows()]) + end + rest.partition(end[1:])[2]
    return page


if __name__ == "__main__":
    for path in REFERENCE.glob("*.md"):
        path.write_text(fill(path.read_text()))
