"""Scripts that the agent keeps: what is remembered of them, and how they run."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from boxes import CANARY, needs_bubblewrap

from harness import YES, Clock, Lab, call
from ipyagent.errors import AgentError, InvalidArgumentsError
from ipyagent.schema import PythonScript, ToolResult
from ipyagent.tools.base import Tool
from ipyagent.tools.result_conversion import OutputStore
from ipyagent.tools.sandbox import Sandbox, bubblewrap
from ipyagent.tools.scripts import ScriptRunner, ScriptStore
from ipyagent.tools.workspace import Workspace
from patience import until

pytestmark = pytest.mark.spec("N23")


class Desk:
    """`python_script` as a new kernel finds it, with arguments checked as those of a model are."""

    def __init__(self, root: Path) -> None:
        workspace = Workspace(root)
        self.tool = tool_of(workspace)
        self.kept = ScriptStore(workspace)
        self.folder = root / ".ipyagent" / "scripts"

    async def __call__(self, action: str, **more: Any) -> ToolResult:
        result = await self.tool(**self.tool.check_arguments({"action": action, **more}))
        assert isinstance(result, ToolResult)
        return result

    async def create(self, content: str) -> str:
        script = (await self("create", content=content)).value
        assert isinstance(script, PythonScript)
        return script.file_id

    def preview(self, action: str, **more: Any) -> Any:
        return self.tool.preview(**self.tool.check_arguments({"action": action, **more}))


def tool_of(workspace: Workspace) -> Tool:
    save = OutputStore(workspace).save
    return ScriptRunner(
        workspace, Sandbox(workspace), save=save, timeout=120.0, max_timeout=600.0
    ).as_tool()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_a_script_is_created_run_edited_and_deleted(desk: Desk, tmp_path: Path):
    created = await desk("create", content="print('one')\n")
    record = created.value
    assert isinstance(record, PythonScript)
    assert created.output == f"created {record.file_id}, 1 line"
    assert record.file_id.startswith("py_")
    assert len(record.file_id) == 9
    assert record.file_path == str(desk.folder / f"{record.file_id}.py")
    assert (record.run_count, record.last_run_at) == (0, None)
    ran = await desk("run", file_id=record.file_id)
    assert ran.success
    assert ran.output.startswith(f"{record.file_id}, run 1:\n")
    assert ran.output.endswith("one")
    assert (ran.value.run_count, ran.value.last_run_at is None) == (1, False)
    edited = await desk("edit", file_id=record.file_id, content="print('two')\nprint(2)\n")
    assert edited.output == f"edited {record.file_id}, 2 lines"
    assert (await desk("run", file_id=record.file_id)).output.endswith("two\n2")
    listed = await desk("list")
    assert listed.output == f"{record.file_id}: 2 lines, 2 runs"
    assert listed.value[0].created_at == record.created_at
    assert (await desk("delete", file_id=record.file_id)).output == f"deleted {record.file_id}"
    assert (await desk("list")).output == "There are no scripts."
    assert not [each for each in desk.folder.iterdir() if each.name.startswith("py_")]


async def test_new_code_can_be_run_at_once_and_is_kept(desk: Desk):
    ran = await desk("run", content="print(6 * 7)")
    assert ran.output.endswith("42")
    assert (await desk("run", file_id=ran.value.file_id)).value.run_count == 2


async def test_it_runs_this_python_in_a_process_of_its_own_in_the_workspace(
    desk: Desk, tmp_path: Path
):
    code = "import os, sys; x = 1; print(sys.executable, os.getcwd(), os.getpid())"
    executable, folder, pid = (await desk("run", content=code)).output.splitlines()[-1].split()
    assert (executable, folder) == (sys.executable, str(tmp_path))
    assert int(pid) > 0
    assert "NameError" in (await desk("run", content="print(x)")).output, "nothing is shared"


@pytest.mark.parametrize(
    ("action", "more", "says"),
    [
        ("create", {}, "create takes content of file_id and content"),
        ("create", {"file_id": "py_000000", "content": "1"}, "create takes content"),
        ("edit", {"content": "1"}, "edit takes file_id and content"),
        ("edit", {"file_id": "py_000000"}, "edit takes file_id and content"),
        ("delete", {}, "delete takes file_id"),
        ("run", {}, "run takes either file_id or content"),
        ("run", {"file_id": "py_000000", "content": "1"}, "run takes either"),
        ("list", {"content": "1"}, "list takes neither"),
        ("run", {"content": "1", "timeout": 601}, "timeout is 601 s; at most 600 s"),
        ("create", {"content": "\ud800"}, "not valid Unicode"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused(
    desk: Desk, action: str, more: dict[str, Any], says: str
):
    with pytest.raises(InvalidArgumentsError, match=says):
        await desk(action, **more)
    assert not desk.folder.exists()


@pytest.mark.parametrize("action", ["install", "", "RUN"])
def test_other_actions_are_refused(desk: Desk, action: str):
    with pytest.raises(InvalidArgumentsError, match="action"):
        desk.tool.check_arguments({"action": action})


@pytest.mark.parametrize("file_id", ["py_zzzzzz", "py_000000", "../x", "py_000000/../../x", ""])
async def test_an_id_that_is_none_is_an_error_that_names_those_there_are(desk: Desk, file_id: str):
    known = await desk.create("1")
    for action, more in (("run", {}), ("delete", {}), ("edit", {"content": "2"})):
        with pytest.raises(AgentError, match=f"available: {known}"):
            await desk(action, file_id=file_id, **more)
    with pytest.raises(AgentError, match="there is no script"):
        desk.preview("run", file_id=file_id)


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"file_id": 3}', b"\xff\x00", None])
async def test_a_damaged_record_costs_no_script(desk: Desk, damage: bytes | None):
    file_id = await desk.create("print('fine')")
    await desk("run", file_id=file_id)
    record = desk.folder / f"{file_id}.json"
    record.unlink() if damage is None else record.write_bytes(damage)
    (script,) = desk.kept.load_all()
    assert (script.content, script.run_count) == ("print('fine')", 0)
    assert (await desk("run", file_id=file_id)).value.run_count == 1
    assert json.loads(record.read_text())["run_count"] == 1


async def test_a_record_does_not_say_where_a_script_is(desk: Desk, tmp_path: Path):
    file_id = await desk.create("print('mine')")
    record = desk.folder / f"{file_id}.json"
    told = json.loads(record.read_text())
    elsewhere = {**told, "file_path": "/etc/passwd", "content": "x", "file_id": "py_ffffff"}
    record.write_text(json.dumps(elsewhere))
    (script,) = desk.kept.load_all()
    assert (script.file_path, script.content) == (
        str(desk.folder / f"{file_id}.py"),
        "print('mine')",
    )
    assert script.file_id == file_id


async def test_runs_from_two_kernels_are_all_counted(desk: Desk, tmp_path: Path):
    file_id = await desk.create("1")
    one, other = Desk(tmp_path).kept, Desk(tmp_path).kept
    jobs = [asyncio.to_thread(each.begin_run, file_id, None) for each in [one, other] * 10]
    await asyncio.gather(*jobs)
    assert desk.kept.get(file_id).run_count == 20


@pytest.mark.spec("A12")
async def test_the_card_shows_all_of_the_code_that_will_run(desk: Desk):
    code = "print('one')\n" * 1_000
    file_id = await desk.create(code)
    for action, more in (
        ("run", {"file_id": file_id}),
        ("run", {"content": code}),
        ("create", {"content": code}),
        ("edit", {"file_id": file_id, "content": code}),
    ):
        shown = desk.preview(action, **more)
        assert (shown.kind, shown.language, shown.text) == ("code", "python", code)
    assert desk.preview("delete", file_id=file_id).text == f"delete {file_id}"
    assert desk.preview("list").text == "list the scripts"


async def test_what_runs_is_what_was_shown(desk: Desk, tmp_path: Path):
    file_id = await desk.create("print('harmless')")
    desk.preview("run", file_id=file_id)
    await Desk(tmp_path)("edit", file_id=file_id, content="open('evil', 'w')")
    with pytest.raises(AgentError, match="has changed since it was shown; nothing was run"):
        await desk("run", file_id=file_id)
    assert not (tmp_path / "evil").exists()
    assert desk.kept.get(file_id).run_count == 0
    desk.preview("run", file_id=file_id)
    assert (await desk("run", file_id=file_id)).success


@needs_bubblewrap
@pytest.mark.spec("A54")
async def test_a_script_has_no_network_no_secrets_and_no_way_to_our_state(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    (tmp_path / ".env").write_text(CANARY)
    other = await desk.create(f"# {CANARY}")
    code = (
        "import os, pathlib, socket\n"
        f"paths = ['.env', '.ipyagent/scripts/{other}.py', '/proc/1/environ', __file__]\n"
        "for path in map(pathlib.Path, paths):\n"
        "    try: print(path.read_text())\n"
        "    except OSError as error: print(error)\n"
        "try: open(__file__, 'a').write('#')\n"
        "except OSError as error: print(error)\n"
        "socket.create_connection(('127.0.0.1', 1))"
    )
    result = await desk("run", content=code)
    assert CANARY not in result.output
    assert result.output.count("Read-only file system") == 1
    assert "import os, pathlib, socket" in result.output, "it may read itself"
    assert "Error" in result.output
    assert not desk.tool.can_reach_out()


def test_sensitive_but_asked_about_each_time_only_outside_of_a_box(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        bubblewrap,
        "detect_sandbox",
        lambda: bubblewrap.SandboxSupport(problem="bubblewrap is not installed"),
    )
    tool = tool_of(lab.environment.workspace)
    assert (tool.sensitive, tool.can_reach_out()) == (True, True)
    run, create = (
        tool.check_arguments({"action": "run"}),
        tool.check_arguments({"action": "create"}),
    )
    assert tool.always_asks(**run) == "not sandboxed: bubblewrap is not installed"
    assert tool.always_asks(**create) is None
    assert (tool.source(**run), tool.source(**create)) == ("the output of a script", None)
    calls = [call("python_script", action="run", content="print(1)")] * 2
    ran = lab.run([{"calls": calls}, "Ok."], tools=[tool], answer=YES, confirm_mode="yolo")
    assert len(lab.watcher.asked) == 2
    assert all("(not sandboxed)\n1" in result.output for result in ran.results)
    assert all(result.success for result in ran.results)


async def test_its_time_is_limited(desk: Desk, tmp_path: Path, own_clock: Clock):
    waits = "open('begun', 'w'); import time; time.sleep(60)"
    ran = asyncio.create_task(desk("run", content=waits, timeout=500))
    await until((tmp_path / "begun").exists)
    own_clock.advance(501)
    assert ((await ran).error or "").startswith("ended after 500 s")


async def test_an_error_is_told_with_its_traceback(desk: Desk):
    result = await desk("run", content="def f():\n    1 / 0\nf()")
    assert (result.success, result.error) == (False, "exit code 1")
    assert "line 2, in f" in result.output
    assert "ZeroDivisionError" in result.output
