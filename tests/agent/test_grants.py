"""What "Always" covers: code of the same reach, the same program, and nothing unread."""

from pathlib import Path
from typing import Any

import pytest

from harness import ALWAYS, NO, Lab, call
from ipyagent.agent.approvals import Answer
from ipyagent.agent.policy import FolderPermissions, Policy
from ipyagent.magic import commands
from ipyagent.schema import DecidedBy, Decision, Scope, ToolExecution, ToolStatus
from ipyagent.tools.base import Tool
from ipyagent.tools.static_analysis import analyze_command
from ipyagent.ui.plain_text import request_text
from ipyagent.ui.questions import _ask_once

FOLDER = Answer(Decision.APPROVED, DecidedBy.BUTTON, scope=Scope.FOLDER)


def run(lab: Lab, code: str, answer: Any = NO) -> ToolExecution:
    """What became of a call of run_python with this code."""
    return lab.run([{"calls": [call("run_python", code=code)]}, "Done."], answer=answer).executions[
        0
    ]


READ = "from pathlib import Path\nPath('a.txt').read_text()"
WRITE = "import os\nos.makedirs('never', exist_ok=True)"
GRANTED = [
    ("x = 1", "y = 2\nprint(y)", True, None),
    ("x = 1", READ, False, "also touches: files (reads) (Path('a.txt').read_text)"),
    ("x = 1", WRITE, False, "also touches: files (writes) (os.makedirs)"),
    ("x = 1", "import os\nos.listdir('/')", False, "also touches: files (reads) (os.listdir)"),
    ("x = 1", "import socket", False, "also touches: network (import socket)"),
    ("x = 1", "exec('y = 1')", False, "not covered by what you allowed: cannot be determined"),
    ("x = 1", "!ls", False, "not covered by what you allowed: cannot be determined"),
    (READ, "x = 1", True, None),
    (READ, "import os\nos.listdir('.')", True, None),
    (READ, WRITE, False, "also touches: files (writes)"),
]


@pytest.mark.spec("P05", "P23")
@pytest.mark.parametrize("answer", [ALWAYS, FOLDER], ids=["session", "folder"])
@pytest.mark.parametrize(("first", "later", "covered", "why"), GRANTED)
def test_always_covers_code_that_touches_no_more(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: Answer,
    first: str,
    later: str,
    covered: bool,
    why: str | None,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("1")
    lab = Lab(tmp_path)
    assert run(lab, first, answer).status is ToolStatus.SUCCESS
    if answer is FOLDER:
        lab = Lab(tmp_path)
    again = run(lab, later)
    assert (again.status is ToolStatus.SUCCESS) == covered
    assert bool(lab.watcher.asked) == (not covered)
    assert (again.concern or "").startswith(why or "")
    assert bool(again.concern) == bool(why)


def test_grants_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("1")
    lab = Lab(tmp_path)
    for code in ("x = 1", READ, WRITE):
        run(lab, code, ALWAYS)
    assert run(lab, f"{WRITE}\n{READ}").decided_by is DecidedBy.SESSION
    assert str(lab.session.grants.get("run_python")) == "code that writes files, reads files"


def test_always_is_not_offered_for_what_cannot_be_told(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    asked = run(lab, "exec('x = 1')", ALWAYS)
    assert (asked.status, asked.scopes, asked.covers) == (ToolStatus.SUCCESS, (), None)
    assert asked.touches == "touches: cannot be determined (exec)"
    assert len(lab.session.grants) == 0, "what was not offered cannot be taken"


def test_a_function_of_the_notebook_is_never_covered(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    run(lab, "def helper():\n    import os\n    return os.getcwd()", NO)
    exec("def helper(): return 1", lab.variables)
    lab.variables.pop("__builtins__", None)
    run(lab, "x = 1", ALWAYS)
    assert run(lab, "helper()").status is ToolStatus.DENIED


def test_reading_alone_never_lets_code_run(tmp_path: Path) -> None:
    assert run(Lab(tmp_path), "x = 1").status is ToolStatus.DENIED


def test_a_script_is_read_when_it_runs_by_its_name(tmp_path: Path) -> None:
    tool = tool_named(tmp_path, "python_script")
    shown = tool.preview(action="run", file_id=None, content="import socket", timeout=None)
    assert tool.effects(shown).kinds == {"network"}
    listed = tool.preview(action="list", file_id=None, content=None, timeout=None)
    assert tool.effects(listed).kinds == set()


def tool_named(root: Path, name: str) -> Tool:
    from ipyagent.config import Config

    return Lab(root).environment.toolset.build(Config()).get(name)


def test_a_shell_permission_is_for_one_program(tmp_path: Path) -> None:
    tool = tool_of_shell()
    policy = Policy()
    policy.grant(tool, Scope.SESSION, analyze_command("git status"))
    assert policy.evaluate(tool, {}, analyze_command("git log -3")).by is DecidedBy.SESSION
    for command, why in [("ls", "also touches: ls"), ("git log; ls", "not covered")]:
        verdict = policy.evaluate(tool, {}, analyze_command(command))
        assert (verdict.reason or "").startswith(why)


def tool_of_shell() -> Tool:
    from ipyagent.tools.base import tool

    return tool(
        name="run_shell",
        sensitive=True,
        where="thread",
        effects=lambda preview: analyze_command(preview.text),
    )(lambda: "")


def test_the_approval_says_what_is_touched_and_covered(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"df": 1})
    run(lab, "df = 2\nopen('a.txt', 'w')")
    (approval,) = lab.watcher.asked
    about = approval.subject
    assert isinstance(about, ToolExecution)
    lines = request_text(about, color=False).split("\n")
    assert lines[1] == "  touches: files (writes) (open('a.txt', 'w')); redefines df"
    assert about.covers == "code that writes files"
    typed: list[str] = []
    _ask_once(approval, lambda text: typed.append(text) or "n")
    assert "[a]lways for this session (code that writes files), [f] always in" in typed[0]


def test_policy_lists_what_is_covered(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    run(lab, "x = 1", FOLDER)
    assert (
        FolderPermissions(tmp_path).describe_grant("run_python")
        == "code that only works on variables"
    )
    assert "revoke" in (commands.policy.__doc__ or "")
