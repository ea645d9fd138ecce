"""The tests that the Makefile names are there: pytest runs none at all if one was renamed."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
NAMED = re.compile(r"(?<![\w./-])(?:tests|benchmarks|notebooks|packaging)/[\w./-]+")


def test_every_file_that_the_makefile_names_is_there() -> None:
    named = set(NAMED.findall((ROOT / "Makefile").read_text()))
    assert len(named) > 10
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []
