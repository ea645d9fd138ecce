"""Kernels and scripts whose sessions are in a PostgreSQL database."""

import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from ipyagent import Agent, Scripted
from kernels import kernel, script
from servers.postgres import PASSWORD, PostgresServer

pytestmark = [pytest.mark.kernel, pytest.mark.slow]


def test_a_conversation_goes_on_in_the_next_kernel_and_no_password_is_shown(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    own = {"IPYAGENT_STORE__URL": postgres.url()}
    with kernel(tmp_path, **own) as first:
        read = f"import os; print(os.environ['IPYAGENT_STORE__URL'], '+', {PASSWORD!r})"
        said = {"calls": [{"name": "run_python", "arguments": {"code": read}}]}
        option = script(tmp_path, said, "One.")
        first.run("import os; os.environ['PGSSLMODE'] = 'verify-full'  # as a .env would")
        shown = first.run(f"%%agent {option} --confirm yolo\nFirst.")
        assert shown.run["status"] == "done"
        text = "".join(first.run(f"%agent {each}").stdout for each in ("status", "config"))
        assert f"127.0.0.1:{postgres.port}/team, schema s" in text
        for secret in (PASSWORD, quote(PASSWORD, safe="")):
            assert secret not in str([each["content"] for each in shown.messages[2:]]) + text
    with kernel(tmp_path, **own) as second, kernel(tmp_path, **own) as other:
        assert "First." in second.run("%agent runs").stdout
        second.run(f"%%agent {script(tmp_path, 'Two.')}\nSecond.")
        assert "First." in second.run("%agent runs").stdout
        reply = other.run(f"%%agent {script(tmp_path, 'Three.')}\nThird.")
        assert any("branch" in note for note in reply.run["notes"])
    assert not (tmp_path / ".ipyagent" / "state.db").exists()


def test_without_a_server_a_cell_says_so_in_one_line_and_the_next_one_works(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    away = postgres.url().replace(f":{postgres.port}/", ":1/")
    with kernel(tmp_path, IPYAGENT_STORE__URL=away) as started:
        option = script(tmp_path, "One.")
        reply = started.run(f"%%agent {option}\nFirst.")
        text = str([each["content"] for each in reply.messages])
        assert "its server cannot be used" in text
        assert "Traceback" not in text
        assert PASSWORD not in text
        started.run(f"%agent config store.url={postgres.url()}")
        assert started.run(f"%%agent {option}\nSecond.").run["status"] == "done"


def test_a_script_s_agents_share_a_session(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPYAGENT_STORE__URL", postgres.url())
    monkeypatch.chdir(tmp_path)
    assert Agent(Scripted(["One."]), session="shared").ask("First.").output == "One."
    code = "from ipyagent import *; import sys\n"
    code += "agent = Agent(Scripted(['Two.']), session='shared')\n"
    code += "agent.ask('Second.'); print([r.prompt for r in agent.session.runs])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "'Second.'" in said.stdout
