"""Score the explorer on questions.json: right, wrong, declined.

    python benchmarks/explorer/score.py            # both halves, counted
    python benchmarks/explorer/score.py --show     # what went wrong in the half that is for work

The other half, chosen by a hash of the text, is never printed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TESTS = HERE.parents[1] / "tests"
DATA = TESTS / "explorer" / "data"
sys.path.insert(0, str(TESTS / "explorer"))

from explorer_runner import Kernel

Question = dict[str, Any]


def read_questions(half: str) -> list[Question]:
    """Return the questions of a half: `work`, or `held out`."""
    questions = json.loads((HERE / "questions.json").read_text())
    return [q for q in questions if (_digest(q) % 2 == 0) == (half == "held out")]


def _digest(question: Question) -> int:
    text = question["table"] + question["question"]
    return int(hashlib.sha256(text.encode()).hexdigest(), 16)


def judge(question: Question, thinking: str, text: str) -> str:
    """Return `right`, `wrong` or `declined`."""
    if thinking.startswith(("Rule: declined", "Rule: help", "the call failed")):
        return "declined"
    if text.startswith("**I can't tell"):  # it gives the numbers to choose from
        return "declined"
    if any(name for name, _ in question["expected"]):
        written = dict(re.findall(r"@(\w+)\[([^\]\n]*)\]", text))
        right = all(
            _same(written.get(name), value, question["digits"])
            for name, value in question["expected"]
        )
        return "right" if right and text.rstrip().endswith("]") else "wrong"
    bold = re.findall(r"\*\*(.+?)\*\*", text)
    return "right" if _any_same(bold, question) else "wrong"


def _any_same(bold: Sequence[str], question: Question) -> bool:
    value = question["expected"][0][1]
    if isinstance(value, str):
        return value in [each.replace("\\", "").strip("`") for each in bold]
    return any(_shown(word, value) for each in bold for word in each.replace("%", " ").split())


def _shown(text: str, value: float) -> bool:
    """Return whether a number in an answer is this one, as far as it is given."""
    plain = text.replace(",", "").removesuffix("%").strip()
    if not re.fullmatch(r"-?\d+(\.\d+)?(e[-+]?\d+)?", plain):
        return False
    decimals = len(plain.partition("e")[0].partition(".")[2])
    exponent = int(plain.partition("e")[2] or 0)
    return math.isclose(
        float(plain), value, rel_tol=1e-9, abs_tol=0.51 * 10 ** (exponent - decimals)
    )


def _same(written: str | None, value: Any, digits: int | None) -> bool:
    if written is None:
        return False
    if isinstance(value, str):
        return written.strip().casefold() == value.casefold()
    try:
        number = float(written)
    except ValueError:
        return False
    if digits is None:
        return math.isclose(number, value, rel_tol=1e-3)
    return math.isclose(number, value, rel_tol=1e-9, abs_tol=0.51 * 10**-digits)


def answer(question: Question) -> tuple[str, str, list[str]]:
    """Ask with nothing loaded, and only this table in the folder."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(DATA / question["table"], folder)
        kernel = Kernel(Path(folder))
        said = kernel.ask(question["question"])
        return said.thinking, said.text, kernel.code


def score(half: str, show: Sequence[str] = (), every: int = 1) -> dict[str, Counter[str]]:
    """Return the counts of right, wrong and declined answers by kind."""
    counts: dict[str, Counter[str]] = {}
    for question in read_questions(half)[::every]:
        thinking, text, code = answer(question)
        result = judge(question, thinking, text)
        counts.setdefault(question["kind"], Counter())[result] += 1
        if "brief" in show and half == "work" and result == "declined":
            why = re.sub(r"(?s).*language model\. |\n.*", "", text)
            print(
                f"{question['kind']}: {question['question'][:230]!r} [{question['table']}]\n   {why[:200]}"
            )
        if result in show and half == "work":
            print(f"--- {result}: {question['kind']} {question['table']}\n{question['question']}")
            print(f"    expected {question['expected']}\n    {thinking}")
            if result == "wrong":
                print(*code[-1:], text, sep="\n")
    return counts


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--show", nargs="*", default=[], choices=["wrong", "declined", "right", "brief"]
    )
    parser.add_argument("--half", default="both")
    show, half_only = (args := parser.parse_args()).show, args.half
    for half in ("work", "held out") if half_only == "both" else (half_only,):
        counts = score(half, show)
        total = sum(counts.values(), Counter())
        print(
            f"== {half}: {total.total()} questions:",
            *(f"{n} {r} ({n / total.total():.0%})" for r, n in sorted(total.items())),
        )
        if half == "work":
            for kind, each in sorted(counts.items()):
                print(f"   {kind}: {dict(each)}")


if __name__ == "__main__":
    main()
