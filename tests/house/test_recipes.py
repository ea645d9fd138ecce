"""The recipes of CONTRIBUTING work as they stand: they are followed on a copy of the repository."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from repository import ROOT

RECIPES = ["Add a tool", "Add a provider", "Add a fact to the card"]
PYTHON = ".venv/bin/python"
STEP = re.compile(r"(?ms)^\d+\. (.*?)(?=^\d+\. |\Z)")
BLOCK = re.compile(r"(?ms)^   ```(\w+)\n(.*?)^   ```$")
FILE = re.compile(r"`((?:src|tests|docs)/[\w/]+\.(?:py|md))`")


def read_steps(title: str) -> list[str]:
    section = (ROOT / "CONTRIBUTING.md").read_text().partition(f"\n## {title}\n")[2]
    return [each[1] for each in STEP.finditer(section.partition("\n## ")[0])]


def change_file(path: Path, kind: str, block: str) -> None:
    """Apply a diff whose context stands once in the file, or add code at its end."""
    text = path.read_text()
    if kind == "python":
        path.write_text(f"{text}\n\n{block}")
        return
    lines = block.splitlines(keepends=True)
    before, after = (
        "".join(line[1:] or "\n" for line in lines if line[0] != sign) for sign in "+-"
    )
    assert text.count(before) == 1, f"{path} has this {text.count(before)} times:\n{before}"
    path.write_text(text.replace(before, after))


def run_command(folder: Path, words: list[str]) -> None:
    inherited = {name: each for name, each in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=inherited | {"PYTHONPATH": str(folder / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-2_000:]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_works_as_it_stands(repository: Path, title: str) -> None:
    changed = set()
    for step in read_steps(title):
        for kind, block in BLOCK.findall(step):
            path = FILE.findall(step.partition("```")[0])[0]
            change_file(repository / path, kind, re.sub("(?m)^   ", "", block))
            changed.add(path)
        if step.startswith(f"`{PYTHON} "):
            words = shlex.split(step.split("`")[1])[1:]
            run_command(repository, words + ["-q", "-m", "not slow"] * ("pytest" in words))
    assert len(changed) <= 4
    sources = [path for path in changed if path.endswith(".py")]
    run_command(repository, ["-m", "ruff", "check", *sources])


def test_each_recipe_begins_with_a_file_and_ends_with_tests() -> None:
    for title in RECIPES:
        first, *_, last = read_steps(title)
        assert FILE.search(first), title
        assert last.startswith(f"`{PYTHON} -m pytest "), title
