"""Questions with exact answers, and the check of what a model answered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from tables import loading_code

Answer = str | float


@dataclass(frozen=True)
class Task:
    """A question about a table; `expressions` compute its answers from `df`."""

    table: str
    question: str
    expressions: Mapping[str, str]

    @property
    def prompt(self) -> str:
        """The whole request, the same for all harnesses."""
        return f"{self.question}\nThe data is in the file {self.table}."

    def code(self) -> str:
        """Return a program that prints all answers."""
        values = ", ".join(
            f"{name!r}: {expression}" for name, expression in self.expressions.items()
        )
        head = "import json, numpy as np, pandas as pd\n"
        load = f"table = df = {loading_code(self.table)}\n"
        return f"{head}{load}print(json.dumps({{{values}}}, default=str))"

    def solve(self, folder: Path) -> dict[str, Answer]:
        """Return the right answers, from the files in that folder."""
        reader = loading_code(self.table).replace('("', f'("{folder}/')
        names = {"pd": pd, "np": np}
        names["df"] = eval(reader, names)
        return {name: eval(each, names) for name, each in self.expressions.items()}


def load_tasks() -> list[Task]:
    """Return all tasks, in the order of the file."""
    entries = yaml.safe_load(Path(__file__).with_name("tasks.yaml").read_text())
    return [Task(each["table"], each["ask"], each["answers"]) for each in entries]


_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


def is_right(text: str, expected: Mapping[str, Answer]) -> bool:
    """Return whether the text gives each expected value, numbers to their last digit."""
    return all(_has_value(text, value) for value in expected.values())


def _has_value(text: str, expected: Answer) -> bool:
    if isinstance(expected, str):
        return expected.strip().lower() in text.replace("\\", "").lower()
    decimals = len(repr(float(expected)).partition(".")[2])
    given = (float(each.replace(",", "")) for each in _NUMBER.findall(text))
    return any(abs(number - float(expected)) < 10**-decimals * 0.51 for number in given)
