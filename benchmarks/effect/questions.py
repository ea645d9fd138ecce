"""How often the default mode asks in sessions of analysis, with looks and without.

    make questions

Each cell of a session is a call of `run_python` from a scripted model, in a new kernel for each
session, in a folder with all tables; each question is approved by a click.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(Path(__file__).parent)]

from tables import write_tables

from kernels import Page, kernel

GOAL = 0.2
"""Questions with looks, times those without."""

DECIDED = """
import json, ipyagent
made = ipyagent.last.executions
print(json.dumps([(each.decided_by.value, each.result.success) for each in made]))
"""


@dataclass(frozen=True)
class AnalysisSession:
    """The code that a model runs in turn, after what the user ran `before`.

    `changes` are the numbers of those cells that change what is not the run's own.
    """

    name: str
    cells: Sequence[str]
    before: str = ""
    changes: Collection[int] = ()


def load_sessions() -> list[AnalysisSession]:
    """Read the sessions from their file."""
    text = (Path(__file__).parent / "sessions.yaml").read_text()
    return [AnalysisSession(**each) for each in yaml.safe_load(text)]


def list_decisions(session: AnalysisSession, *, looks: bool) -> list[str]:
    """Return of each cell who decided that it runs; `failed`, if it only failed on a copy."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder)
        calls = [{"name": "run_python", "arguments": {"code": code}} for code in session.cells]
        script = [*({"calls": [call]} for call in calls), "Done."]
        (folder / "script.json").write_text(json.dumps(script))
        with kernel(folder, IPYAGENT_AGENT__LOOK_FREELY=str(looks).lower()) as started:
            started.run(session.before)
            cell = f"%%agent -m scripted/script.json\n{session.name}"
            started.run(cell, page=Page(started), patience=600)
            decided = json.loads(started.run(DECIDED).stdout)
    return ["failed" if by == "rehearsal" and not success else by for by, success in decided]


def main() -> None:
    """Run the sessions and print the table."""
    line = "{:34}{:>7}{:>15}{:>12}{:>12}{:>10}".format
    print(line("", "cells", "without looks", "with looks", "needlessly", "unasked"))
    rows = []
    for session in load_sessions():
        without, by = (list_decisions(session, looks=looks) for looks in (False, True))
        asked, looked = (
            {number for number, each in enumerate(by) if each == kind}
            for kind in ("button", "rehearsal")
        )
        found = [asked, asked - {*session.changes}, looked & {*session.changes}]
        counts = [len(session.cells), without.count("button"), *map(len, found)]
        rows.append(counts)
        print(line(session.name, *counts), flush=True)
    _, without, asked_with, _, unasked = totals = [
        sum(column) for column in zip(*rows, strict=True)
    ]
    print(line("all", *totals))
    is_met = asked_with <= GOAL * without and not unasked
    print(
        f"{asked_with / without:.2f} of the questions; goal {GOAL}: {'' if is_met else 'not '}met"
    )


if __name__ == "__main__":
    main()
