"""The scores of the explorer: nothing wrong, enough right, and no table that it was fitted to."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from explorer_runner import Kernel

ROOT = Path(__file__).parents[2]
DATA = Path(__file__).parent / "data"
sys.path.insert(0, str(ROOT / "benchmarks" / "explorer"))

import score  # noqa: E402


@pytest.mark.slow
def test_tables_and_writers_that_nobody_tuned_for() -> None:
    counts = score.score([*score.held_out_questions()])
    total = sum(counts.values(), Counter())
    assert total["wrong"] == total["half"] == 0, total
    assert counts["short"]["right"] >= 0.5 * counts["short"].total(), counts
    assert counts["easy"]["right"] >= 0.2 * counts["easy"].total(), counts


def test_questions_in_other_shapes_are_right_or_declined() -> None:
    questions = [*score.questions_to_work_with()][::8]
    total = sum(score.score(questions).values(), Counter())
    assert total["wrong"] == total["half"] == 0, total
    assert total["right"] >= 0.1 * total.total(), total


def test_the_judge_tells_right_from_half_wrong_and_declined(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)
    asked = score.Question("", Path(), "", expected=(4201.754, "Adelie"))
    for verdict, thinking, text in [
        ("right", "", "**Adelie** has 4,201.75."),
        ("half", "", "**Adelie** has 4,201.7."),
        ("half", "", "It is 4201.754."),
        ("wrong", "", "It is 4201.5."),
        ("declined", "Rule: declined: no", "Adelie 4201.75"),
    ]:
        assert score.judge(asked, kernel, thinking, text) == verdict


def test_nothing_in_the_explorer_knows_the_tables_of_the_questions() -> None:
    source = "\n".join(
        path.read_text() for path in (ROOT / "src" / "ipyagent" / "explorer").rglob("*.py")
    ).casefold()
    questions = json.loads((ROOT / "benchmarks" / "explorer" / "questions.json").read_text())
    # The penguins are in the documentation, and so in examples of docstrings.
    others = [each for each in DATA.glob("*.csv") if "penguins" not in each.name]
    others += (ROOT / "benchmarks" / "explorer" / "held_out").glob("*.csv")
    columns = {c for each in others for c in pd.read_csv(each, nrows=1).columns}
    special = {c for c in columns if "_" in c or (c.isupper() and len(c) > 8)}
    assert len({each["table"] for each in questions}) >= 15
    assert len(special) > 8
    for name in {each["table"] for each in questions} | special:
        assert not re.search(rf"\b{re.escape(name.casefold())}\b", source), name
