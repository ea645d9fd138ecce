"""Write the pages that come from the code: the executed notebooks, options, commands, settings."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from sphinx.pycode import ModuleAnalyzer

from ipyagent.config import Config
from ipyagent.config.rules import Section
from ipyagent.config.sections import format_value, iter_settings
from ipyagent.magic.commands import COMMANDS
from ipyagent.magic.options import options_help

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


def generate(folder: Path) -> None:
    """Write all of them into `folder`, anew."""
    shutil.rmtree(folder, ignore_errors=True)
    tour = folder / "tour"
    shutil.copytree(NOTEBOOKS, tour, ignore=shutil.ignore_patterns(".*", "demo.py"))
    for notebook in sorted(tour.glob("*.ipynb")):
        execute(notebook)
    (folder / "options.txt").write_text(options_help())
    (folder / "commands.md").write_text("\n".join(command_rows()))
    (folder / "settings.md").write_text("\n".join(settings_rows()))
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
            meaning = (command.__doc__ or "").replace("|", "\\|")
            yield f"| `%agent {name}` | {meaning} |"


def settings_rows() -> Iterator[str]:
    """Yield a table of all settings: key, default, meaning."""
    yield from ("| setting | default | meaning |", "|---|---|---|")
    meanings = dict(iterate_meanings(Config, ""))
    for key, default in iter_settings(Config()):
        name, value = ".".join(key), format_value(default)
        yield f"| `{name}` | {f'`{value}`' if value else ''} | {meanings[name]} |"


def iterate_meanings(section: type[Section], prefix: str) -> Iterator[tuple[str, str]]:
    """Yield each setting's dotted key and the docstring below its field."""
    analyzer = ModuleAnalyzer.for_module(section.__module__)
    analyzer.analyze()
    for name, field in section.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            yield from iterate_meanings(field.annotation, f"{prefix}{name}.")
        else:
            lines = analyzer.attr_docs.get((section.__name__, name), [])
            yield prefix + name, " ".join(lines).strip()
