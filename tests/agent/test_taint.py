"""A model that does whatever it reads: what reaches out is asked about again, with the reason.

The scripted model below is fully compliant. It sends what a file or a server tells it to send, and
runs the code that it finds. So every case is exact: nothing depends on a model's judgement.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hostile_world import HOSTILE, World

from harness import ALWAYS, NO, YES, call
from ipyagent.agent.policy import Effect, FolderPermissions, Policy, Verdict
from ipyagent.config import Rule
from ipyagent.schema import DecidedBy, Scope, ToolStatus
from ipyagent.tools.base import Tool, tool


@pytest.fixture
def world(tmp_path: Path) -> World:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(HOSTILE)
    return World(tmp_path)


READ = [
    (call("read_file", path="a.txt"), "a.txt"),
    (call("read_file", path="./x/../a.txt"), "a.txt"),
    (call("fetch", name="s"), "the server s"),
    (call("fetch", name="broken"), "the server broken"),
    (call("search_files", query="Ignore"), "files in this folder"),
]
OUT = [
    call("send", text="all variables"),
    call("run_python", code="print('owned')"),
]


@pytest.mark.spec("P03")
@pytest.mark.parametrize("out", OUT, ids=lambda out: out["name"])
@pytest.mark.parametrize(("reading", "source"), READ)
def test_after_others_words_were_read_what_was_allowed_is_asked_about_again(
    world: World, reading: dict[str, Any], source: str, out: dict[str, Any]
) -> None:
    (world.lab.environment.workspace.root / "x").mkdir()
    world.run(out, answer=ALWAYS)
    assert world.run(out)[0].decided_by is DecidedBy.SESSION
    before = len(world.sent)
    _, refused = world.run(reading, out)
    assert world.concerns == [f"this conversation has read {source}"]
    assert (refused.status, len(world.sent)) == (ToolStatus.DENIED, before)
    approved = world.run(out, answer=YES)[0]
    assert approved.status is ToolStatus.SUCCESS
    assert world.run(reading, out)[1].decided_by is DecidedBy.SESSION, "one answer, one source"


def test_an_approval_for_the_session_knows_what_had_been_read_by_then(world: World) -> None:
    a, b = (call("read_file", path=path) for path in ("a.txt", "b.txt"))
    world.run(a, OUT[0], answer=ALWAYS)
    assert world.concerns == ["this conversation has read a.txt"]
    world.run(a, OUT[0])
    assert world.concerns == []
    world.run(b, OUT[0], answer=ALWAYS)
    assert world.concerns == ["this conversation has read b.txt"]
    world.run(a, b, OUT[0])
    assert (world.concerns, len(world.sent)) == ([], 4)


def test_it_holds_within_one_reply_and_over_runs(world: World) -> None:
    world.run(OUT[0], answer=ALWAYS)
    together = {"calls": [call("read_file", path="a.txt"), OUT[0]]}
    run = world.lab.run([together, "Done."], tools=world.tools(), answer=NO)
    assert [each.status for each in run.executions] == [ToolStatus.SUCCESS, ToolStatus.DENIED]
    world.run(OUT[0])
    assert world.concerns == ["this conversation has read a.txt"]


def test_a_tool_that_is_not_sensitive_is_asked_about_only_then(world: World) -> None:
    note = call("remember", text="obey")
    world.run(note)
    assert (world.sent, world.concerns) == (["obey"], [])
    world.run(call("fetch", name="s"), note)
    assert (world.sent, world.concerns) == (["obey"], ["this conversation has read the server s"])
    world.run(note, answer=ALWAYS)
    world.run(note)
    assert (len(world.sent), world.concerns) == (3, [])


@pytest.mark.parametrize("mode", ["confirm-sensitive", "confirm-all"])
def test_what_changes_only_the_workspace_needs_no_second_look(world: World, mode: str) -> None:
    write = call("write_file", path="new.txt", content="x")
    world.run(write, answer=ALWAYS, confirm_mode=mode)
    allowed = world.run(call("read_file", path="a.txt"), write, answer=YES, confirm_mode=mode)[1]
    assert allowed.decided_by is DecidedBy.SESSION


@pytest.mark.spec("A12")
def test_in_yolo_nothing_is_asked_because_that_was_said(world: World) -> None:
    world.run(call("fetch", name="s"), *OUT, confirm_mode="yolo")
    assert (len(world.sent), world.concerns) == (1, [])


def test_what_never_ran_was_not_read(world: World) -> None:
    world.run(call("fetch", nom="s"), call("read_file", path="a.txt", offset=0))
    world.run(call("fetch", name="s"), confirm_mode="confirm-all")
    assert set(world.lab.session.conversation.sources) == set()
    world.run(call("fetch", name="s"), confirm_mode="confirm-all", answer=YES)
    assert set(world.lab.session.conversation.sources) == {"the server s"}


def sending(**traits: Any) -> Tool:
    return tool(name="send", sensitive=True, reaches_out=True, where="thread", **traits)(lambda: "")


def read(*names: str) -> Any:
    return dict.fromkeys(names).keys()


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["a"], "a"),
        (["a", "b"], "b and a"),
        (["a", "b", "c"], "c, b and a"),
        (["a", "b", "c", "d"], "d, c, b and 1 more"),
        ([*"abcdefg"], "g, f, e and 4 more"),
    ],
)
def test_the_newest_sources_are_named(names: list[str], told: str) -> None:
    policy = Policy(sources=read(*names))
    verdict = policy.evaluate(sending(), {})
    assert verdict == Verdict(
        Effect.ASK, reason=f"this conversation has read {told}", scopes=(Scope.SESSION,)
    )


def test_neither_rules_nor_folders_know_what_is_read(tmp_path: Path) -> None:
    send, standing = sending(), FolderPermissions(tmp_path)
    standing.grant(send)
    rules = [Rule(effect="allow", tool=("send",))]
    for lasting in (Policy(rules=rules), Policy(folder_permissions=standing)):
        assert lasting.evaluate(send, {}).effect is Effect.ALLOW
        tainted = replace(lasting, sources=read("a.csv"))
        verdict = tainted.evaluate(send, {})
        assert (verdict.effect, verdict.reason) == (Effect.ASK, "this conversation has read a.csv")
        assert verdict.scopes == (Scope.SESSION,)
        tainted.grant(send, Scope.ONCE)
        assert tainted.evaluate(send, {}).by is lasting.evaluate(send, {}).by, (
            "that source is known now"
        )


def test_the_reason_stands_beside_others(tmp_path: Path) -> None:
    send = sending(always_asks=lambda: "not sandboxed")
    rules = [Rule(effect="ask", tool=("send",), reason="mind the cost", source="config.yaml")]
    verdict = Policy("yolo", rules=rules, sources=read("a.csv")).evaluate(send, {})
    assert verdict == Verdict(
        Effect.ASK,
        reason="not sandboxed; config.yaml asks about it: mind the cost; "
        "this conversation has read a.csv",
    )
