"""`ipyagent ask` and `ipyagent chat`: the agent without a notebook."""

import io
import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pexpect
import pytest

import ipyagent
from ipyagent.cli import main

ROOT = Path(__file__).parents[1]
WRITE = {"calls": [{"name": "write_file", "arguments": {"path": "x.txt", "content": "hi"}}]}
OPTIONS = ("-m", "scripted/script.json")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, and nobody at standard input."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    script(tmp_path, "Fine.")
    return tmp_path


def script(folder: Path, *replies: Any) -> None:
    (folder / "script.json").write_text(json.dumps(replies))


@pytest.mark.spec("H28")
def test_ask_shows_the_run_and_its_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", *OPTIONS, "How", "are", "you?"]) == 0
    out, err = capsys.readouterr()
    assert "scripted/script.json" in out
    assert "Fine." in out
    assert err == ""


@pytest.mark.spec("H28")
def test_with_json_only_the_summary_of_the_run_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["ask", *OPTIONS, "--json", "--trace-id", "abc-123", "Hello?"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["status"], summary["output"]) == ("success", "Fine.")
    assert summary["trace_id"] == "abc-123"
    assert summary["usage"]["total_tokens"] == 0


@pytest.mark.spec("H28")
@pytest.mark.parametrize("source", ["words", "file", "stdin", "dash"])
def test_the_prompt_comes_from_the_command_a_file_or_standard_input(
    source: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "What is 6 * 7?\nAnd 6 * 8?"
    (folder / "prompt.txt").write_text(text)
    if source in ("stdin", "dash"):
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
    more = {"words": [text], "file": ["--file", "prompt.txt"], "stdin": [], "dash": ["-"]}[source]
    assert main(["ask", *OPTIONS, "--session", "mine", *more]) == 0
    assert ipyagent.last.prompt == text


@pytest.mark.spec("H28")
@pytest.mark.parametrize(
    ("replies", "options", "code"),
    [
        (["Fine."], [], 0),
        ([{"error": {"kind": "refused", "message": "no"}}], [], 1),
        ([WRITE, WRITE, "Never."], ["--confirm", "yolo", "--max-steps", "1"], 3),
        ([WRITE], ["--plan"], 3),
        (["Fine."], ["--tools", "no_such_tool"], 1),
    ],
)
def test_the_exit_code_says_how_it_went(
    replies: list[Any], options: list[str], code: int, folder: Path
) -> None:
    script(folder, *replies)
    assert main(["ask", *OPTIONS, *options, "Begin the work."]) == code


@pytest.mark.spec("H28")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "required: ask|chat"),
        (["answer"], "invalid choice: 'answer'"),
        (["ask"], "standard input holds no prompt"),
        (["ask", "--file", "gone.txt"], "gone.txt cannot be read: No such file"),
        (["ask", "--file", "a.txt", "Hello"], "keep one"),
        (["ask", "--max-step", "3", "Hello"], "unrecognized arguments: --max-step"),
        (["ask", "--max-steps", "many", "Hello"], "agent.max_steps"),
        (["ask", "-a", "nobody", "Hello"], "there are: explain, plan, review, write"),
        (["ask", "--config", "gone.yaml", "Hello"], "--config gone.yaml: there is no such file"),
        (["chat", "--confirm", "sometimes"], "invalid choice: 'sometimes'"),
    ],
)
def test_a_mistake_in_the_command_is_one_line_and_exit_code_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("ipyagent: ")
    assert said in err
    assert "Traceback" not in err


@pytest.mark.spec("H28")
def test_headless_a_sensitive_call_is_denied_and_a_dry_run_asks_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script(folder, WRITE, "Over.")
    main(["ask", *OPTIONS, "Write."])
    assert "nobody can be asked" in capsys.readouterr().out
    assert main(["ask", *OPTIONS, "--dry-run", "Write."]) == 0
    assert not (folder / "x.txt").exists()
    assert main(["ask", *OPTIONS, "--confirm", "yolo", "Write."]) == 0
    assert (folder / "x.txt").read_text() == "hi"


@pytest.mark.spec("H28", "P21")
def test_a_plan_that_waits_is_approved_in_words_in_its_session(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script(folder, WRITE)
    assert main(["ask", *OPTIONS, "--plan", "-s", "work", "Write."]) == 3
    assert "`ipyagent ask -s work yes` runs it" in capsys.readouterr().err
    assert not (folder / "x.txt").exists()
    assert main(["ask", *OPTIONS, "-s", "work", "yes"]) == 0
    assert (folder / "x.txt").exists()


@pytest.mark.spec("H28")
def test_chat_reads_prompt_after_prompt_in_one_session(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("One?\n\nTwo?\nquit\nNever.\n"))
    assert main(["chat", *OPTIONS, "-s", "talk"]) == 0
    assert capsys.readouterr().out.count("Fine.") == 2
    said = ipyagent.Agent("offline/explorer", session="talk").session.history
    assert [message.text for message in said] == ["One?", "Fine.", "Two?", "Fine."]


@pytest.mark.spec("H28", "A57")
def test_what_a_folder_s_settings_may_not_do_is_told_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "ipyagent.yaml").write_text("agent: {confirm_mode: yolo}")
    monkeypatch.setattr("sys.stdin", io.StringIO("One?\nTwo?\n"))
    assert main(["chat", *OPTIONS]) == 0
    assert capsys.readouterr().out.count("agent.confirm_mode is ignored") == 1


def environment(folder: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if "KEY" not in k and not k.startswith("IPYAGENT")}
    return kept | {"TERM": "xterm", "NO_COLOR": "1", "XDG_CONFIG_HOME": str(folder / ".config")}


COMMAND = f"{sys.executable} -m ipyagent.cli"


def in_shell(
    line: str, folder: Path, text: str | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a line with this text at its standard input."""
    env = environment(folder) | variables
    command = ["bash", "-c", line]
    return subprocess.run(
        command, cwd=folder, env=env, input=text, capture_output=True, text=True, check=False
    )


@pytest.mark.spec("H28")
def test_it_works_as_a_process_without_a_terminal(folder: Path) -> None:
    done = in_shell(f"{COMMAND} ask {' '.join(OPTIONS)} --json", folder, "Hello?")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["output"] == "Fine."


@pytest.mark.spec("H28")
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("{} --json hi | true; exit ${{PIPESTATUS[0]}}", 141),
        ("{} <&-", 2),
        ("{} hi >&-", 0),
    ],
)
def test_closed_ends_of_pipes_are_no_tracebacks(line: str, code: int, folder: Path) -> None:
    done = in_shell(line.format(f"{COMMAND} ask {' '.join(OPTIONS)}"), folder)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("locale", ["C.UTF-8", "POSIX"])
@pytest.mark.parametrize(
    ("command", "code", "error"),
    [
        ("printf 'caf\\xe9' | {} ask {}", 2, "standard input is not text in UTF-8"),
        ("printf 'caf\\xe9\\n' | {} chat {}", 0, "this line is not text in UTF-8"),
        ("{} chat {} <&-", 0, ""),
    ],
)
def test_input_that_is_no_text_is_named_in_every_locale(
    command: str, code: int, error: str, locale: str, folder: Path
) -> None:
    done = in_shell(command.format(COMMAND, " ".join(OPTIONS)), folder, LC_ALL=locale)
    assert (done.returncode, done.stderr.strip()) == (code, f"ipyagent: {error}" if error else "")


def test_a_prompt_from_windows_is_the_same_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    piped = io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfHello\r\nthere"), encoding="utf-8")
    monkeypatch.setattr("sys.stdin", piped)
    assert main(["ask", *OPTIONS]) == 0
    assert ipyagent.last.prompt == "Hello\nthere"


@pytest.mark.parametrize("command", ["ask", "chat"])
def test_a_command_in_a_deleted_folder_says_so(command: str, folder: Path) -> None:
    gone = folder / "gone"
    gone.mkdir()
    done = in_shell(f"rmdir {gone}; {COMMAND} {command} {' '.join(OPTIONS)}", gone, "Hello?")
    assert done.returncode == 2
    told = f"the folder in which `ipyagent {command}` was started is not there any more"
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_the_console_script_is_declared() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, name = declared["ipyagent"].partition(":")
    assert getattr(import_module(module), name) is main


def heed_ctrl_c() -> None:
    """A shell's background job ignores it, and so would all that such a job starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def in_terminal(folder: Path, *arguments: str) -> Any:
    return pexpect.spawn(
        sys.executable,
        ["-m", "ipyagent.cli", *arguments],
        cwd=str(folder),
        env=environment(folder),
        encoding="utf-8",
        timeout=60,
        echo=False,
        preexec_fn=heed_ctrl_c,
    )


@pytest.fixture
def chat(folder: Path) -> Iterator[Any]:
    child = in_terminal(folder, "chat", *OPTIONS)
    child.expect_exact("> ")
    yield child
    child.close(force=True)


def press_ctrl_c_until(chat: Any, words: str) -> None:
    """Press it again where nothing follows.

    Python's `input` looks for signals only while it waits for keys. One that comes between the
    prompt and that wait is seen at the next key.
    """
    for _ in range(20):
        chat.sendintr()
        if chat.expect_exact([words, pexpect.TIMEOUT], timeout=10) == 0:
            return
    raise AssertionError(f"Ctrl-C is never answered by {words!r}")


@pytest.mark.spec("H25", "H28", "P23")
def test_in_a_terminal_calls_are_asked_about_and_ctrl_c_stops_only_the_run(
    chat: Any, folder: Path
) -> None:
    script(folder, WRITE, "Written.")
    chat.sendline("Write x.txt.")
    chat.expect(r"Run write_file\?")
    assert not (folder / "x.txt").exists()
    chat.sendline("y")
    chat.expect_exact("Written.")
    chat.expect_exact("\n> ")
    assert (folder / "x.txt").read_text() == "hi"
    script(folder, {"text": "slow " * 2000, "delay": 0.1})
    chat.sendline("Talk.")
    chat.expect_exact("slow slow")
    chat.sendintr()
    chat.expect_exact("ipyagent: stopped")
    chat.expect_exact("> ")
    press_ctrl_c_until(chat, "Ctrl-D ends")
    chat.expect_exact("> ")
    script(folder, "Back.")
    chat.sendline("Still there?")
    chat.expect_exact("Back.")
    chat.expect_exact("\n> ")
    chat.sendeof()
    chat.expect(pexpect.EOF)
    chat.close()
    assert chat.exitstatus == 0


@pytest.mark.spec("H25", "H28")
def test_an_interrupt_of_ask_is_exit_code_130(folder: Path) -> None:
    script(folder, {"text": "slow " * 2000, "delay": 0.1})
    child = in_terminal(folder, "ask", *OPTIONS, "Talk.")
    child.expect_exact("slow slow")
    child.sendintr()
    child.expect_exact("ipyagent: stopped")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130
