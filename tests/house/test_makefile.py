"""The tests that the Makefile names are there: pytest runs none at all if one was renamed."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter

from repository import ROOT

NAMED = re.compile(r"(?<![\w./-])(?:tests|benchmarks|notebooks|packaging)/[\w./-]+")


def test_every_file_that_the_makefile_names_is_there() -> None:
    text = (ROOT / "Makefile").read_text()
    named = set(NAMED.findall(text))
    assert len(named) > 10
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_the_gate_runs_every_test_file() -> None:
    names = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    dry_run = ["make", "--dry-run", "pytest"]
    shown = subprocess.run(dry_run, cwd=ROOT, env=names, capture_output=True, text=True, check=True)
    elsewhere = ("tests/benchmarks/", "tests/values/lazy_data/")
    files = {str(path.relative_to(ROOT)) for path in ROOT.glob("tests/**/test_*.py")}
    assert set(re.findall(r"\btests/[\w/]+\.py", shown.stdout)) == {
        file for file in files if not file.startswith(elsewhere)
    }


def test_no_two_modules_of_tests_have_one_name() -> None:
    """`make test` runs each folder apart, `make test-all` all of them in one process."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
