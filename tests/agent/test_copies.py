"""Every look begins with the kernel as it is, on a copy on which nothing else ran."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import NO, YES, Lab
from ipyagent.rehearsal.in_kernel import read_random_states, restore_random_states
from ipyagent.schema import DecidedBy, RehearsalOutcome, Run, ToolStatus
from ipyagent.tools.reports import REACHES
from rehearsal_trial import play

# The process that runs the tests is what is forked: other tests would leave threads in it.
pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("needs_isolation")]

BOX = "class Box:\n    items = [1]\nbox = Box()\nprint(box.items)"


def outcomes(run: Run) -> list[tuple[bool, str]]:
    """Return of each call whether it ran without a question, and its output."""
    outputs = [each.result.output.strip() if each.result else "" for each in run.executions]
    unasked = [each.decided_by is DecidedBy.REHEARSAL for each in run.executions]
    return [*zip(unasked, outputs, strict=True)]


def test_an_object_that_stays_on_a_copy_is_gone_and_the_model_is_told_what_to_do(
    tmp_path: Path,
) -> None:
    run = play(Lab(tmp_path), BOX, "box.items")
    first, second = (each.result for each in run.executions)
    assert (
        "Left on the copy of the kernel where this ran: Box (type), box (Box)." in first.for_model
    )
    assert "keep=true" in first.for_model
    assert "NameError" in second.error
    assert "Left on an earlier copy of the kernel: box." in second.for_model


POISON = {
    "the report": (
        "import ipyagent.rehearsal.process as r\n"
        "class Evil:\n    write = r.write_report\n"
        "def lie(pipe, report, buffers=()):\n"
        "    Evil.write(pipe, {**report, 'adoption': {'total': ['int', hex(666)]}}, buffers)\n"
        "r.write_report = lie\nkept = Evil()\nprint(kept)"
    ),
    "a thread": (
        "import _thread, builtins, time\n"
        "def work():\n    while True: builtins.sum = lambda *_: 666\n"
        "_thread.start_new_thread(work, ())\nclass A: pass\na = A()\nprint(a)"
    ),
    "a module": "import builtins\nbuiltins.sum = lambda *_: 666\nclass A: pass\na = A()\nprint(a)",
    "a member": "import textwrap\ntextwrap.dedent = exec\nclass A: pass\na = A()\nprint(a)",
}


@pytest.mark.parametrize("way", POISON)
def test_a_hostile_look_poisons_no_later_one(tmp_path: Path, way: str) -> None:
    lab = Lab(tmp_path, {"df": {"a": [1, 2, 3]}})
    innocent = "from textwrap import dedent\ntotal = int(sum(df['a']))\nprint(total)"
    play(lab, POISON[way], innocent)
    assert lab.variables.get("total", 6) == 6
    assert lab.variables.get("dedent", lambda text: text) is not exec


def test_imports_and_functions_are_what_the_text_of_the_code_says(tmp_path: Path) -> None:
    import textwrap

    codes = (
        "from textwrap import dedent, indent as push\nimport json as j, os.path",
        "def double(x: undefined, by=2) -> int:\n    return x * by\ndouble(4)",
        "total = double(5)\ntotal",
        "def double(x):\n    return 3 * x",
    )
    lab = Lab(tmp_path)
    run = play(lab, *codes)
    assert [unasked for unasked, _ in outcomes(run)] == [True] * 4, run.executions
    import json
    import os

    named = {name: lab.variables[name] for name in ("dedent", "push", "j", "os")}
    assert named == {"dedent": textwrap.dedent, "push": textwrap.indent, "j": json, "os": os}
    assert (lab.variables["total"], lab.variables["double"](2)) == (10, 6)


@pytest.mark.parametrize(
    "code",
    [
        "def f(x=[]): pass",
        "@lambda g: g\ndef f(): pass",
        "if 1:\n    def f(): pass",
        "def f(): pass\nf = print",
        "from colorsys import nothing_of_it as f",
        "f = lambda: 1",
        "def f(): pass\nmatch print:\n    case f: pass",
        "def f(): return 1\nexec('def f(): return 2')",
        "def f(x=1): pass\nf.__defaults__ = (2,)",
        "def f(): pass\nf.mark = 1",
        "globals()['F'.lower()] = 1",
    ],
)
def test_what_the_text_does_not_say_alone_stays_on_the_copy(tmp_path: Path, code: str) -> None:
    lab = Lab(tmp_path)
    play(lab, code)
    assert "f" not in lab.variables


DRAWS = (
    "[random.random(), own.random(), np.random.random(), "
    "old.random(), rng.random(), twister.random()]"
)


def test_a_package_whose_part_is_loaded_only_on_the_copy_stays_there(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    play(lab, "import json.tool")
    assert "json" not in lab.variables


def spoil(state: Any) -> object:
    """Return a state of random numbers that leads beyond its numbers, or holds no number."""
    match state:
        case {"state": {"key": key}}:
            return {**state, "state": {"key": key, "pos": -1}}
        case ("MT19937", key, _, *gauss):
            return ("MT19937", key, 10**7, *gauss)
        case (version, numbers, _):
            return version, numbers, [1]
    return 1


def test_states_that_make_no_sense_are_not_taken_over() -> None:
    named = {
        "twister": np.random.Generator(np.random.MT19937(1)),
        "own": random.Random(1),
        "random": np.random.default_rng(1),
    }
    before = read_random_states(named)
    restore_random_states({name: spoil(each) for name, each in before.items()}, named)
    assert repr(read_random_states(named)) == repr(before)


def test_random_numbers_go_on_where_a_look_has_ended(tmp_path: Path) -> None:
    twister = np.random.Generator(np.random.MT19937(3))
    lab = Lab(tmp_path, {"np": np, "rng": np.random.default_rng(5), "own": random.Random(4)})
    lab.variables |= {"old": np.random.RandomState(6), "twister": twister}
    codes = (
        "import random\nrandom.seed(1); np.random.seed(2)\nrandom.random()",
        f"x = {DRAWS}\nx",
        f"y = {DRAWS}\ny",
    )
    state, old = random.getstate(), np.random.get_state()
    try:
        run = play(lab, *codes)
    finally:
        random.setstate(state)
        np.random.set_state(old)
    assert [unasked for unasked, _ in outcomes(run)] == [True] * 3, run.executions
    plain = random.Random(1)
    plain.random()
    again = [plain, random.Random(4), np.random.RandomState(2), np.random.RandomState(6)]
    again += [np.random.default_rng(5), np.random.Generator(np.random.MT19937(3))]
    for name in ("x", "y"):
        assert lab.variables[name] == [each.random() for each in again]


def test_code_that_is_to_be_kept_is_asked_about_with_its_effects(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    replies: list[Any] = [
        {"calls": [{"name": "run_python", "arguments": {"code": BOX, "keep": True}}]},
        "Done.",
    ]
    found = lab.run(replies, look_freely=True, rehearse_seconds=20.0, answer=NO).executions[0]
    assert found.status is ToolStatus.DENIED
    assert found.rehearsal.outcome is RehearsalOutcome.CHANGES
    assert {each.name for each in found.rehearsal.variables} == {"Box", "box"}
    assert lab.variables == {}
    found = lab.run(replies, look_freely=True, rehearse_seconds=20.0, answer=YES).executions[0]
    assert found.decided_by is DecidedBy.BUTTON
    assert lab.variables["box"].items == [1]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("open('sale.csv')", "FileNotFoundError"),
        ("open('/nowhere/sale.csv')", "FileNotFoundError"),
        ("import sqlite3; sqlite3.connect('shop.db').execute('select 1 from t')", "no such table"),
        ("raise PermissionError('mine')", "PermissionError"),
    ],
)
def test_an_error_of_the_codes_own_is_for_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, error: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (found,) = play(Lab(tmp_path), code).executions
    assert found.decided_by is DecidedBy.REHEARSAL, found.rehearsal
    assert error in found.result.error


MET = {
    "import os\nprint(os.path.exists({0!r}))": "{reaches}{0}",
    "import glob\nprint(glob.glob({0!r} + '*'))": "{reaches}{0}*",
    "try: open({0!r})\nexcept OSError: print('none')": "{reaches}{0}",
    "open({0!r})": "{reaches}{0}",
    "import socket\ntry: socket.create_connection(('127.0.0.1', 9))\n"
    "except OSError: print('the server is down')": "uses the network",
    "import os\ntry: os.system('true')\nexcept OSError: pass": "starts a process",
}


@pytest.mark.parametrize("code", MET)
def test_code_that_met_the_isolation_is_asked_about_whether_it_caught_that_or_not(
    tmp_path: Path, code: str
) -> None:
    root, hidden = tmp_path / "workspace", tmp_path / "private.txt"
    root.mkdir()
    hidden.write_text("private")
    lab = Lab(root)
    (found,) = play(lab, code.format(str(hidden)), answer=NO).executions
    assert found.status is ToolStatus.DENIED, found.result
    assert MET[code].format(hidden, reaches=REACHES) in found.rehearsal.texts
    [shown] = [each for each in lab.watcher.events if each.type == "tool_rehearsed"]
    assert shown.rehearsal.result is None or shown.rehearsal.result.success
