"""`%%agent` in terminal IPython, on a real pseudo-terminal."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from kernels import python, script
from patience import PATIENCE

pytestmark = pytest.mark.kernel

PROMPT = r"In \[\d+\]: "


def environment(folder: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if "KEY" not in k and not k.startswith("IPYAGENT")}
    asks = {"IPYAGENT_AGENT__LOOK_FREELY": "false"}
    return kept | asks | {"IPYTHONDIR": str(folder / ".ipython"), "TERM": "xterm", "NO_COLOR": "1"}


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Any]:
    command = [*("-m", "IPython", "--no-banner", "--simple-prompt", "--colors=nocolor")]
    child = pexpect.spawn(
        sys.executable,
        command,
        cwd=str(tmp_path),
        env=environment(tmp_path),
        encoding="utf-8",
        timeout=PATIENCE,
        echo=False,
    )
    child.expect(PROMPT)
    child.sendline("%load_ext ipyagent")
    child.expect(PROMPT)
    yield child
    child.close(force=True)


def agent(child: Any, folder: Path, *replies: Any, options: str = "") -> None:
    child.sendline(f"%%agent {script(folder, *replies)} {options}")
    child.sendline("Begin.")
    child.sendline("\n")  # an empty line, twice, ends a cell magic


def test_the_question_is_asked_at_the_terminal_and_yes_runs_the_call(
    terminal: Any, tmp_path: Path
) -> None:
    agent(terminal, tmp_path, python("terminal_says = 6 * 7"), "It is done.")
    terminal.expect_exact("terminal_says = 6 * 7")
    terminal.expect(r"Run run_python\?")
    terminal.sendline("y")
    terminal.expect_exact("It is done.")
    terminal.expect(PROMPT)
    terminal.sendline("terminal_says")
    terminal.expect_exact("42")


def test_a_line_that_ends_with_a_question_mark_asks_the_agent(
    terminal: Any, tmp_path: Path
) -> None:
    option = script(tmp_path, python("typed = 6"), "It's three.")
    terminal.sendline(f"%agent {option} What's the count of sales_q1.csv?")
    terminal.expect(r"Run run_python\?")
    terminal.sendline("y")
    terminal.expect_exact("It's three.")
    terminal.expect(PROMPT)


def test_ctrl_c_while_streaming_and_at_the_question_returns_to_a_usable_prompt(
    terminal: Any, tmp_path: Path
) -> None:
    agent(terminal, tmp_path, {"text": "slow " * 200, "delay": 0.05})
    terminal.expect_exact("slow")
    terminal.sendintr()
    terminal.expect_exact("You stopped this run.")
    terminal.expect(PROMPT)
    agent(terminal, tmp_path, python("never = 1"), "Never.")
    terminal.expect(r"Run run_python\?")
    terminal.sendintr()
    terminal.expect_exact("You stopped this run.")
    terminal.expect(PROMPT)
    agent(terminal, tmp_path, "Here again.")
    terminal.expect_exact("Here again.")
    terminal.expect(PROMPT)


@pytest.mark.spec("H17", "D5")
def test_no_terminal_escape_of_the_model_or_a_tool_reaches_the_terminal(
    terminal: Any, tmp_path: Path
) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31mtext"
    agent(
        terminal,
        tmp_path,
        {"text": evil} | python(f"print({evil!r})"),
        evil + " end",
        options="--confirm yolo",
    )
    terminal.expect_exact("text end")
    seen = terminal.before
    assert "text" in seen
    assert "\x1b]0" not in seen
    assert "\x1b[2J" not in seen
    assert "\x9b" not in seen


def run_alone(folder: Path, *arguments: str) -> str:
    """Return the output of a Python without a terminal."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    return done.stdout


def test_without_a_tty_a_sensitive_call_is_denied_at_once(tmp_path: Path) -> None:
    option = script(tmp_path, python("x = 1"), "I could not.")
    cells = ["%load_ext ipyagent", f"%%agent {option}\nBegin."]
    code = "; ".join(f"get_ipython().run_cell({cell!r})" for cell in cells)
    output = run_alone(tmp_path, "-m", "IPython", "--colors=nocolor", "-c", code)
    assert "--confirm yolo" in output
    assert "I could not." in output


DOUBLE = """
from ipyagent import Agent, Scripted, tool

@tool
def double(n: int) -> int:
    "Double a number."
    return 2 * n

replies = [{"calls": [{"name": "double", "arguments": {"n": 21}}]}, "It is 42."]
run = Agent(Scripted(replies), tools=[double]).ask("Double 21.")
print(run.outcome, run.output, run.results[0].output, run.results[0].value)
"""


def test_a_script_asks_an_agent_and_gets_its_run(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(DOUBLE)
    assert run_alone(tmp_path, "script.py").strip() == "success It is 42. 42 42"


@pytest.mark.slow
def test_an_inserted_cell_is_the_beginning_of_the_next_prompt(
    terminal: Any, tmp_path: Path
) -> None:
    insert = {"name": "insert_cell", "arguments": {"source": "proposed = 6 * 7"}}
    agent(terminal, tmp_path, {"calls": [insert]}, "It is there.", options="--confirm yolo")
    terminal.expect_exact("at the next prompt")
    terminal.expect_exact("It is there.")
    terminal.expect(PROMPT)
    # A simple prompt cannot be filled, so what would be is still there.
    terminal.sendline("print(get_ipython().rl_next_input.upper())")
    terminal.expect_exact("PROPOSED = 6 * 7")


def test_thinking_and_answer_are_whole_and_in_order(terminal: Any, tmp_path: Path) -> None:
    terminal.sendline("n = [1, 2, 3]")
    terminal.expect(PROMPT)
    terminal.sendline("%%agent -m offline/explorer -v")
    terminal.sendline("Which variables are there?")
    terminal.sendline("\n")
    terminal.expect(r"ipyagent · offline.*?\n")
    terminal.expect(r"\ndone · [^\n]*\n")
    text = terminal.before.replace("\r\n", "\n")
    assert text.count("Thinking…\n") == 2
    _, _, last = text.rpartition("Thinking…\n")
    assert last.startswith(
        "Put what the tool returned into words.\n**The variables in this kernel**\n\n```text\n"
    )
    assert last.rstrip().endswith("[1, 2, 3]\n```")
