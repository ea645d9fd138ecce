"""How often the default mode asks about calls that only read, in many libraries.

    make questions

The user's kernel has run a group's code `before`; then a scripted model sends each call of the
group, and again once the user's kernel has run them too. Questions are denied, so that each call
finds the kernel as it was. Libraries that are not installed are skipped.
"""

from __future__ import annotations

import json
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import yaml

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests")]

from ipyagent.rehearsal.confinement import Method
from kernels import Kernel, Page, kernel

GOAL = 0.02
"""Calls that are asked about, of all."""

ISOLATE = """
import typing, ipyagent.tools.rehearsal as _rehearsal
_rehearsal.Method = typing.Literal["{}"]
del typing, _rehearsal
"""
DECIDED = """
last = __import__("ipyagent").last
print(__import__("json").dumps([each.model_dump(mode="json") for each in last.executions]))
del last
"""
"""Binds none of the names that a group may need."""


@dataclass(frozen=True)
class Readings:
    """Calls that only read, with the code that the user's kernel runs `before`.

    `needs` are the modules that must be installed; `cold` calls are a library's first use, each in
    a kernel of its own.
    """

    name: str
    calls: Sequence[str]
    before: str
    needs: Collection[str] = ()
    cold: bool = False

    @property
    def is_installed(self) -> bool:
        """Whether all that it needs is there."""
        return all(find_spec(each.partition(".")[0]) for each in self.needs)


@dataclass(frozen=True)
class Reading:
    """How a call was decided: `reason` is why it was asked about, `error` how it failed."""

    code: str
    way: str
    when: str
    reason: str = ""
    error: str = ""


def load_readings() -> list[Readings]:
    """Read the calls from their file."""
    text = (Path(__file__).parent / "readings.yaml").read_text()
    return [Readings(**each) for each in yaml.safe_load(text)]


def try_readings(group: Readings, way: Method) -> Iterator[Reading]:
    """Send a group's calls to a new kernel; for first uses, each call to its own kernel."""
    for calls in [[each] for each in group.calls] if group.cold else [group.calls]:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            settings = {"IPYAGENT_AGENT__LOOK_FREELY": "true", "IPYAGENT_AGENT__MAX_STEPS": "90"}
            with kernel(folder, **settings) as started:
                for code in (ISOLATE.format(way), group.before):
                    reply = started.run(code, patience=600)
                    assert reply.status == "ok", (group.name, reply.content)
                yield from _send(started, folder, calls, way, "cold")
                if not group.cold:
                    for code in calls:
                        body = textwrap.indent(code, " ")
                        cell = code if "%" in code else f"def warm():\n{body}\nwarm()\ndel warm"
                        started.run(cell, patience=600)
                    yield from _send(started, folder, calls, way, "warm")


def _send(
    started: Kernel, folder: Path, calls: Sequence[str], way: str, when: str
) -> Iterator[Reading]:
    steps = [{"calls": [{"name": "run_python", "arguments": {"code": code}}]} for code in calls]
    (folder / ".script.json").write_text(json.dumps([*steps, "Done."]))
    page = Page(started, decision="deny")
    started.run("%%agent -m scripted/.script.json\nRead.", page=page, patience=600)
    executions = json.loads(started.run(DECIDED).stdout)
    assert len(executions) == len(calls), (calls[0], len(executions))
    for code, each in zip(calls, executions, strict=True):
        result, found = each["result"] or {}, each.get("rehearsal") or {}
        if each["decided_by"] == "rehearsal":
            error = "" if result.get("success") else (result.get("error") or "failed")
            yield Reading(code, way, when, error=error.strip().splitlines()[-1] if error else "")
        else:
            yield Reading(code, way, when, _explain(each, found))


def _explain(execution: dict[str, Any], found: dict[str, Any]) -> str:
    parts = [
        *([found["reason"]] if found.get("reason") else ()),
        *found.get("texts", ()),
        *(f"changes {each['name']}" for each in found.get("variables", ())),
        *(f"{each['change']} {each['path']}" for each in found.get("files", ())),
    ]
    return "; ".join(parts) or f"{execution['decided_by']}: {execution['reason']} {found}"


def main() -> None:
    """Try the groups whose names are given, or all, in both ways, and print what was asked."""
    names = [each for each in sys.argv[1:] if each not in get_args(Method)]
    ways = [each for each in sys.argv[1:] if each in get_args(Method)] or get_args(Method)
    chosen = [each for each in load_readings() if not names or each.name in names]
    missing = [each.name for each in chosen if not each.is_installed]
    asked, made = Counter[str](), Counter[str]()
    for group in (each for each in chosen if each.is_installed):
        for way in ways:
            for each in try_readings(group, way):
                made[way] += 1
                asked[way] += bool(each.reason)
                if each.reason or each.error:
                    what = f"asked: {each.reason}" if each.reason else f"failed: {each.error}"
                    print(
                        f"{group.name} [{way}, {each.when}] {each.code!r}\n    {what}", flush=True
                    )
    print(f"not installed: {', '.join(missing) or 'none'}")
    for way in ways:
        share = asked[way] / max(1, made[way])
        met = "met" if share <= GOAL else "not met"
        print(f"{way}: asked {asked[way]} of {made[way]} ({share:.1%}); goal {GOAL:.0%}: {met}")


if __name__ == "__main__":
    main()
