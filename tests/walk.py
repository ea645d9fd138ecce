"""The way of one prompt through the code: which files and functions of ipyagent it passes.

`python tests/walk.py` prints it; `tests/kernel/test_walk_of_a_prompt.py` holds the counts.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kernels import Page, kernel

SCRIPT = '- calls: [{name: run_python, arguments: {code: "made = 6*7"}}]\n- Done.\n'

PROFILE = """
import sys, threading
from ipyagent.kernel.threads import EngineThread
_calls = []

def _profile(frame, kind, _argument):
    if kind == "call" and "ipyagent/" in frame.f_code.co_filename:
        code = frame.f_code
        module = frame.f_globals.get("__name__", "")
        if module.startswith("ipyagent."):
            _calls.append((threading.current_thread() is threading.main_thread(), module,
                           code.co_qualname if hasattr(code, "co_qualname") else code.co_name))

async def _profile_engine():
    sys.setprofile(_profile)

EngineThread.current().wait_for(_profile_engine())
sys.setprofile(_profile)
"""

FIRST = "Extension.make_awaitable"

STOP = "sys.setprofile(None)"

READ = "import json; print(json.dumps(_calls))"


@dataclass(frozen=True)
class Walk:
    """Calls of functions in order: whether on the main thread, the module, the function."""

    calls: list[tuple[bool, str, str]]

    @property
    def files(self) -> set[str]:
        return {module for _, module, _ in self.calls}

    @property
    def functions(self) -> set[tuple[str, str]]:
        return {(module, name) for _, module, name in self.calls}

    def before_first_event(self) -> Walk:
        names = [(module, name) for _, module, name in self.calls]
        first = names.index(("ipyagent.agent.event_stream", "EventStream.emit"))
        return Walk(self.calls[:first])


def walk(folder: Path, *, warm: bool) -> Walk:
    """Run a scripted prompt with one approved call; `warm`: after another one."""
    (folder / "s.yaml").write_text(SCRIPT)
    cell = "%%agent -m scripted/s.yaml\nMultiply."
    with kernel(folder) as started:
        if warm:
            assert started.run(cell, page=Page(started)).run["status"] == "done"
        started.run(PROFILE)
        assert started.run(cell, page=Page(started)).run["status"] == "done"
        started.run(STOP)
        calls = [tuple(each) for each in json.loads(started.run(READ).stdout)]
        # Before it, the cell that began to count has ended.
        [first, *_] = [i for i, (_, _, name) in enumerate(calls) if name == FIRST]
        return Walk(calls[first:])


def rooms(files: Iterable[str]) -> str:
    counts = Counter(file.split(".")[1] for file in files)
    return ", ".join(f"{room} {count}" for room, count in counts.most_common())


def main() -> None:
    for warm in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            found = walk(Path(folder), warm=warm)
        before = found.before_first_event()
        print("second prompt" if warm else "first prompt")
        for name, each in (("all", found), ("before the first event", before)):
            line = (
                f"{len(each.files)} files, {len(each.functions)} functions, {len(each.calls)} calls"
            )
            print(f"  {name}: {line}\n    {rooms(each.files)}")
        if "-v" in sys.argv:
            for title, files in (("before", before.files), ("after", found.files - before.files)):
                print(title, *sorted(files), sep="\n    ")
            calls = Counter((module, name) for _, module, name in found.calls)
            for (module, name), count in calls.most_common(60):
                print(f"{count:5} {module}.{name}")


if __name__ == "__main__":
    main()
