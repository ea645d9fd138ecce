"""The benchmark runs: at its smallest, where figures mean nothing."""

import ast
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from repository import ROOT

SECTIONS = {
    "start": ["%load_ext ipyagent, beside import openai", "first answer of the explorer"],
    "turns": [
        "a script with one prompt, cold",
        "a prompt and its answer, warm",
        "… beside the bare loop, cold",
    ],
    "chunks": ["a streamed chunk"],
    "steps": [
        "step 1, all in",
        "step 2, all in",
        "step 2 beside step 1",
        "step 2 beside one without a record",
        "requests that do not extend the last",
        "connections",
        "system prompt and tools",
        "growth of a request with each step",
    ],
    "rest": [
        "key to wire, warm kernel",
        "8 calls of 0.2 s, by the clock",
        "memory after four turns",
        "a session of 12 nodes is opened",
        "memory for 2 steps, 1 a run",
        "memory for 2 steps, 2 a run",
    ],
    "sessions": [
        "the end of a reply, for each MB",
        "a first piece waits",
        "a session of 2 runs is opened",
        "memory for a session of 2 runs",
    ],
    "large": [
        "2 columns described, pandas",
        "2 columns described, polars",
        "code among 20 names",
        "digest of 20 names",
        "digest of 2 frames",
        "what a prompt says of 1,000 files",
        "a name completed among 1,000 files",
    ],
    "replays": [
        "a replay of ten calls, beside these",
        "a recording is found among 2",
        "a notebook of 2 runs is read",
        "… and takes, the first time",
        "… and later",
    ],
    "kernels": [
        "a run of 2 kernels, on a disk",
        "… the longest of them",
        "a run of 2 kernels, as on a network drive",
        "… the longest of them",
    ],
}
"""The rows of the table."""


def compare(folder: Path, *options: str) -> tuple[str, dict[str, Any]]:
    """Return the table, and what was written as JSON; temporary files are in the folder."""
    path = folder / "figures.json"
    command = [sys.executable, str(ROOT / "benchmarks/compare.py"), "--tiny"]
    done = subprocess.run(
        [*command, "--json", str(path), *options],
        env=os.environ | {"TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(path.read_text())


@pytest.mark.parametrize(
    ("section", "labels"),
    [
        pytest.param(*row, id=row[0], marks=() if row[0] == "turns" else pytest.mark.slow)
        for row in SECTIONS.items()
    ],
)
def test_every_row_of_the_table_is_measured(
    section: str, labels: list[str], tmp_path: Path
) -> None:
    table, figures = compare(tmp_path, "--only", section)
    assert [row["label"] for row in figures["rows"]] == labels
    assert all(math.isfinite(row["ours"]) for row in figures["rows"])
    for label, line in zip(labels, table.splitlines()[1:], strict=True):
        assert line.startswith(label)


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="there is no other revision to compare")
def test_another_revision_is_measured_beside_this_one(tmp_path: Path) -> None:
    table, figures = compare(tmp_path, "--only", "start", "--base", "HEAD")
    now, before = figures["rows"], figures["base"]["rows"]
    assert [row["label"] for row in now] == [row["label"] for row in before] == SECTIONS["start"]
    assert table.splitlines()[0].split()[-1] == "before"
    listed = subprocess.run(
        ["git", "worktree", "list"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert str(tmp_path) not in listed.stdout, "it is removed again"


@pytest.mark.slow
def test_a_map_is_measured_beside_the_raw_client() -> None:
    command = [sys.executable, str(ROOT / "benchmarks/many.py"), "--items", "20"]
    done = subprocess.run(
        [*command, "--repetitions", "1"], capture_output=True, text=True, check=True
    )
    figures = dict(line.rsplit(maxsplit=1) for line in done.stdout.splitlines())
    assert "ratio (goal: 0.8)" in figures
    assert all(math.isfinite(float(each)) for each in figures.values())


def imports_of_ours(code: str) -> Iterator[tuple[str, str]]:
    """Yield each module and name that code imports from the package, and code in its strings."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("ipyagent"):
                yield from ((module, each.name) for each in names)
            case ast.Constant(value=str(text)) if "ipyagent" in text and text != code:
                yield from imports_of_ours(text)


def lacks(module: str, name: str) -> bool:
    """Return whether a module has neither that name nor a module of it."""
    try:
        return not hasattr(import_module(module), name) and find_spec(f"{module}.{name}") is None
    except ModuleNotFoundError:
        return True


def test_what_the_benchmarks_import_is_there() -> None:
    # Most of their programs are strings, of which only the slow tests run each.
    files = (ROOT / "benchmarks").rglob("*.py")
    wanted = {each for path in files for each in imports_of_ours(path.read_text("utf-8"))}
    assert len(wanted) > 50
    assert [each for each in wanted if lacks(*each)] == []
    assert lacks("ipyagent.magic", "entry")
