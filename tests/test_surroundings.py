"""What goes wrong around an agent is told in one clear line, and is over when its cause is gone."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness import Lab, call
from ipyagent import Agent, Scripted
from ipyagent.config.sources import check_homes
from ipyagent.errors import ConfigError
from ipyagent.schema import Outcome
from ipyagent.ui import static_html


def test_a_state_folder_that_cannot_be_made_is_named_for_the_user(tmp_path: Path) -> None:
    (tmp_path / ".ipyagent").write_text("in the way")
    agent = Agent(Scripted(["Hello.", "Hello."]), root=tmp_path)
    error = agent.ask("Hello").error or ""
    assert f"the folder {tmp_path / '.ipyagent'} cannot be made (not a directory)" in error
    assert "list_files" not in error
    (tmp_path / ".ipyagent").unlink()
    assert agent.ask("Hello").output == "Hello."


@pytest.mark.parametrize("step", [0, -1])
def test_a_clock_that_stands_still_or_goes_backwards_spoils_no_run(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    ticks = itertools.count(time.monotonic(), step)
    monkeypatch.setattr(time, "monotonic", lambda: next(ticks))
    replies = [{"thinking": "Well, well.", "calls": [call("list_files")]}, "Done."]
    run = lab.run(replies)
    assert (run.outcome, run.error) == (Outcome.SUCCESS, None)
    assert run.duration == 0


def test_a_tool_s_name_without_end_is_cut_wherever_it_is_said(lab: Lab) -> None:
    run = lab.run([{"calls": [call("x" * 1_000_000)]}, "Sorry."])
    assert run.output == "Sorry."
    assert "no tool has a name of 1,000,000 characters" in run.executions[0].result.output
    assert len(run.model_dump_json()) < 100_000
    assert all(len(str(each)) < 100_000 for each in static_html.saved_bundle(run).values())


SCRIPT = """
import sys
from pathlib import Path
from ipyagent import Agent, Scripted
calls = [{"calls": [{"name": "read_file", "arguments": {"path": "\\u65e5\\u672c.txt"}}]}, "Ok."]
print(ascii(Agent(Scripted(calls), root=sys.argv[1], persist=False).ask("Read.").results[0].output))
"""


def test_a_locale_that_cannot_write_names_is_named_with_the_way_out(tmp_path: Path) -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        env=os.environ | plain,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "PYTHONUTF8=1" in done.stdout


@pytest.mark.parametrize("start", [{"HOME": "/home/me"}, {}])
def test_a_home_that_was_changed_says_how_to_put_it_back(start: dict[str, str]) -> None:
    environ = {"HOME": "/tmp/elsewhere"}
    with pytest.raises(ConfigError) as raised:
        check_homes(environ, start)
    statement = str(raised.value).split("`")[1].replace("import os; os.environ", "environ")
    exec(statement, {"environ": environ})
    check_homes(environ, start)
