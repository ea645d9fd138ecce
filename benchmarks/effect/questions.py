"""How often the default mode asks in sessions of analysis, with looks and without.

    make questions

Each cell of a session is a call of `run_python` from a scripted model, in a new kernel for each
session, in a folder with all tables; each question is approved by a click.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(Path(__file__).parent)]

from tables import write_tables

from kernels import Page, kernel

GOAL = 0.2
"""Questions with looks, times those without."""

CALLS = """
import json, ipyagent
print(json.dumps([
    [each.decided_by.value if each.decided_by else "", each.result.error or ""]
    for each in ipyagent.last.executions
]))
"""


@dataclass(frozen=True)
class AnalysisSession:
    """The code that a model runs in turn, and which of it changes what is not the run's own."""

    name: str
    cells: tuple[str, ...]
    before: str = ""
    changes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Asked:
    """The calls of one session that asked, and those that failed with their errors."""

    calls: tuple[int, ...]
    failed: dict[int, str]


def load_sessions() -> list[AnalysisSession]:
    """Read the sessions from their file."""
    text = (Path(__file__).parent / "sessions.yaml").read_text()
    return [
        AnalysisSession(
            each["name"],
            tuple(each["cells"]),
            each.get("before", ""),
            tuple(each.get("changes", ())),
        )
        for each in yaml.safe_load(text)
    ]


def run_session(session: AnalysisSession, *, looks: bool) -> Asked:
    """Run one session in a new kernel."""
    with tempfile.TemporaryDirectory() as folder:
        write_tables(Path(folder))
        script = [
            {"calls": [{"name": "run_python", "arguments": {"code": code}}]}
            for code in session.cells
        ]
        (Path(folder) / "script.json").write_text(json.dumps([*script, "Done."]))
        with kernel(Path(folder), IPYAGENT_AGENT__LOOK_FREELY=str(looks).lower()) as started:
            started.run(session.before)
            page = Page(started)
            started.run(
                f"%%agent -m scripted/script.json\n{session.name}", page=page, patience=600
            )
            calls = json.loads(started.run(CALLS).stdout)
    return Asked(
        calls=tuple(n for n, (decided_by, _) in enumerate(calls) if decided_by == "button"),
        failed={n: error for n, (_, error) in enumerate(calls) if error},
    )


def compare(sessions: Sequence[AnalysisSession]) -> Iterator[tuple[AnalysisSession, Asked, Asked]]:
    """Yield each session with what asked in it, with looks and without."""
    for session in sessions:
        yield session, run_session(session, looks=True), run_session(session, looks=False)


def main() -> None:
    """Run the sessions and print the table."""
    with_looks = without = needless = unasked = calls = 0
    print(f"{'':38}{'calls':>8}{'without':>10}{'with looks':>12}   asked for needlessly; unasked")
    for session, looked, asked in compare(load_sessions()):
        extra = sorted(set(looked.calls) - set(session.changes))
        missing = sorted(set(session.changes) - set(looked.calls))
        print(
            f"{session.name:38}{len(session.cells):8}{len(asked.calls):10}{len(looked.calls):12}"
            f"   {extra or '-'}; {missing or '-'}",
            flush=True,
        )
        for number, error in sorted(looked.failed.items()):
            print(f"    call {number} failed: {error.splitlines()[-1][:100]}")
        calls += len(session.cells)
        with_looks += len(looked.calls)
        without += len(asked.calls)
        needless += len(extra)
        unasked += len(missing)
    print(f"{'all':38}{calls:8}{without:10}{with_looks:12}   {needless}; {unasked}")
    met = with_looks <= GOAL * without and not unasked
    ratio = with_looks / without
    print(f"{ratio:.2f} questions for each one without looks; goal {GOAL}: {'' if met else 'not '}met")


if __name__ == "__main__":
    main()
