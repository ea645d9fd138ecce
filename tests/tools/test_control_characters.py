"""Calls with control characters in what they run or write are refused before anyone is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import YES, Lab, call
from ipyagent.errors import InvalidArgumentsError
from ipyagent.schema import ToolStatus
from ipyagent.tools.argument_schema import check_control_characters
from ipyagent.tools.base import tool

CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"]
CONTROLS += ["\u2028", "\u2029"]

PLACES: dict[str, Any] = {
    "code": lambda text: call("run_python", code=text),
    "command": lambda text: call("run_shell", command=text),
    "script": lambda text: call("python_script", action="run", content=text),
    "file": lambda text: call("write_file", path="a.py", content=text),
    "path": lambda text: call("write_file", path=text, content="x"),
    "old text": lambda text: call("edit_file", path="a.py", old_string=text, new_string="x"),
    "new text": lambda text: call("edit_file", path="a.py", old_string="x", new_string=text),
    "deleted path": lambda text: call("delete_file", path=text),
    "read path": lambda text: call("read_file", path=text),
    "cell": lambda text: call("insert_cell", source=text, path="a.ipynb"),
    "note": lambda text: call("record_note", content=text),
}


@pytest.mark.spec("P35", "D6")
@pytest.mark.parametrize("place", PLACES)
def test_no_control_character_reaches_the_user_or_the_tool(place: str, tmp_path: Path):
    (tmp_path / "a.py").write_text("x = 1\n")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    lab = Lab(tmp_path)
    calls = [PLACES[place](f"one = 1{control}two = 2") for control in CONTROLS]
    settings = {"tools": {"shell": True}, "workspace": {"allow_delete": True}}
    run = lab.run([{"calls": calls}, "I see."], answer=YES, settings=settings)
    assert lab.watcher.asked == []
    for control, execution in zip(CONTROLS, run.executions, strict=True):
        assert execution.status is ToolStatus.FAILED
        error = execution.result.error if execution.result else ""
        assert f"U+{ord(control):04X}" in str(error)
        assert "line 1, column 8" in str(error)
    assert not {"one", "two"} & {*lab.variables}
    after = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert after == before


def test_lines_end_with_a_newline_alone_or_after_a_return(lab: Lab):
    code = "one = 1\r\nif one:\r\n\ttwo = 2\n"
    run = lab.run([{"calls": [call("run_python", code=code)]}, "Done."], answer=YES)
    assert run.executions[0].status is ToolStatus.SUCCESS
    assert lab.variables["two"] == 2


def test_a_plan_with_a_control_character_is_not_put_to_the_user(lab: Lab):
    hidden = {"calls": [call("run_python", code="evil = 1\rprint('ok')")]}
    run = lab.run([hidden, "I cannot plan that."], plan=True, answer=YES)
    assert lab.watcher.asked == []
    assert "U+000D" in str(run.executions[0].result and run.executions[0].result.error)
    assert "evil" not in lab.variables


def test_a_tool_of_the_user_takes_what_it_declares_and_has_its_code_checked(lab: Lab):
    @tool(sensitive=True)
    def send_keys(keys: str) -> str:
        """Send keys to a device."""
        return repr(keys)

    @tool(sensitive=True, command="statement")
    def query(statement: str) -> str:
        """Run SQL."""
        return statement

    calls = [call("send_keys", keys="\x1b[A"), call("query", statement="select 1 --\rdrop table a")]
    run = lab.run([{"calls": calls}, "Done."], tools=[send_keys, query], answer=YES)
    assert [each.status for each in run.executions] == [ToolStatus.SUCCESS, ToolStatus.FAILED]
    assert len(lab.watcher.asked) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"code": "a\nbc\x1b[2K"}, "code holds the control character U+001B at line 2, "),
        ({"code": "a\r\n\tb\rc"}, "U+000D at line 2, column 3"),
        ({"a": [{"b": "\x9d"}]}, "a[0].b holds the control character U+009D at line 1, column 1"),
        ({"a": {"b\x00": 1}}, "a name in a holds the control character U+0000 at"),
        ({"code": "print('\x7f')"}, r"write the escape sequence \x7f instead"),
        ({"code": "a\x0cb"}, r"write the escape sequence \x0c instead"),
    ],
)
def test_the_model_is_told_which_character_where_and_what_to_write(
    arguments: dict[str, Any], told: str
):
    with pytest.raises(InvalidArgumentsError) as refused:
        check_control_characters(arguments)
    assert told in str(refused.value)
