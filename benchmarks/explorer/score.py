"""Score the explorer: right, half, wrong, declined.

    python benchmarks/explorer/score.py                    # the questions to work with
    python benchmarks/explorer/score.py --show wrong half  # and those that went so
    python benchmarks/explorer/score.py --held-out         # other tables and writers, only counted

An answer is right if all expected values stand in its text (or if the figure, the file or the table
that was asked for is there), half if some of them do, and wrong if none does.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import yaml
from matplotlib import pyplot as plt

HERE = Path(__file__).parent
TESTS = HERE.parents[1] / "tests"
DATA = TESTS / "explorer" / "data"
HELD_OUT = HERE / "held_out"
sys.path.insert(0, str(TESTS / "explorer"))

from explorer_runner import Kernel

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


@dataclass(frozen=True)
class Question:
    """A prompt about one table; `expected` values, or what has to be there afterwards."""

    ask: str
    table: Path
    kind: str
    writer: str = ""
    expected: tuple[Any, ...] = ()
    drawn: tuple[str, ...] = ()
    after: str = ""
    file: str = ""


@dataclass
class Result:
    """The result of a question, with the text and the code."""

    verdict: str
    text: str = ""
    code: list[str] = field(default_factory=list)


def questions_to_work_with() -> Iterator[Question]:
    for each in json.loads((HERE / "questions.json").read_text()):
        yield Question(each["ask"], DATA / each["table"], each["kind"], "", tuple(each["expected"]))


def held_out_questions() -> Iterator[Question]:
    """Yield the questions of other tables and writers; expressions become values."""
    for block in yaml.safe_load((HELD_OUT / "questions.yaml").read_text()):
        table = HELD_OUT / block["table"]
        names = {"df": pd.read_csv(table), "pd": pd, "np": np}
        for kind in ("short", "easy"):
            for writer, asked in block[kind].items():
                for each in asked:
                    values = tuple(eval(a, dict(names)) for a in each.get("answers", ()))
                    drawn, after = tuple(each.get("drawn", ())), each.get("after", "")
                    yield Question(
                        each["ask"], table, kind, writer, values, drawn, after, each.get("file", "")
                    )


def has_value(text: str, value: Any) -> bool:
    """Return whether a text gives a value; a number as far as its digits go."""
    plain = text.replace("\\", "")
    if isinstance(value, str):
        return value.casefold() in plain.casefold()
    return any(_same(found, float(value)) for found in _NUMBER.findall(plain))


def _same(written: str, value: float) -> bool:
    number, exponent = float(written.replace(",", "")), int(written.partition("e")[2] or 0)
    decimals = len(written.partition("e")[0].partition(".")[2])
    near = abs(number - value) <= 0.51 * 10 ** (exponent - decimals)
    return math.isclose(number, value, rel_tol=1e-9) or (
        near and (decimals > 0 or abs(value) < 1e-300)
    )


def judge(question: Question, kernel: Kernel, thinking: str, text: str) -> str:
    """Return `right`, `half`, `wrong` or `declined`."""
    if thinking.startswith(("Rule: declined", "Rule: help", "Rule: thanks")):
        return "declined"
    if question.drawn:
        code = kernel.code[-1] if kernel.code else ""
        return (
            "right" if ".plot" in code and all(part in code for part in question.drawn) else "wrong"
        )
    if question.file or question.after:
        there = not question.file or (kernel.root / question.file).exists()
        tables = [v for v in kernel.namespace.values() if isinstance(v, pd.DataFrame)]
        return "right" if there and any(_meets(question.after, t) for t in tables) else "wrong"
    given = [has_value(text, value) for value in question.expected]
    return "right" if all(given) else "half" if any(given) else "wrong"


def _meets(predicate: str, table: pd.DataFrame) -> bool:
    with contextlib.suppress(Exception):
        return bool(eval(predicate, {"t": table, "pd": pd}))
    return False


def ask(question: Question) -> Result:
    """Ask with nothing loaded, and only this table in the folder."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(question.table, folder)
        kernel = Kernel(Path(folder))
        said = kernel.ask(question.ask)
        verdict = judge(question, kernel, said.thinking, said.text)
        plt.close("all")
        return Result(verdict, said.text, kernel.code)


def score(questions: Sequence[Question], show: Sequence[str] = ()) -> dict[str, Counter[str]]:
    """Return the counts of verdicts by kind."""
    mpl.use("Agg")
    counts: dict[str, Counter[str]] = {}
    for question in questions:
        result = ask(question)
        counts.setdefault(question.kind, Counter())[result.verdict] += 1
        if any(result.verdict.startswith(each) for each in show):
            print(f"--- {result.verdict}: {question.kind} {question.table.name}\n{question.ask}")
            print(f"    expected {question.expected or question.drawn or question.after}")
            print(*result.code[-1:], result.text[:600], sep="\n")
    return counts


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--show", nargs="*", default=[])
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--every", type=int, default=1)
    args = parser.parse_args()
    questions = [*(held_out_questions() if args.held_out else questions_to_work_with())]
    counts = score(questions[:: args.every], args.show)
    for kind, each in sorted(counts.items()):
        print(
            f"{kind}: {each.total()} questions:",
            *(f"{n} {v} ({n / each.total():.0%})" for v, n in sorted(each.items())),
        )
    total = sum(counts.values(), Counter())
    print(
        f"all: {total.total()} questions:",
        *(f"{n} {v} ({n / total.total():.0%})" for v, n in sorted(total.items())),
    )


if __name__ == "__main__":
    main()
