"""The sources of a cell's settings, in a real kernel."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernels import Kernel, Page, kernel, python, script
from servers.model_server import ModelServer, answer

pytestmark = pytest.mark.kernel

SECRET = "sk-canary-0123456789abcdef"
ENVIRONMENT = {"LITELLM_API_KEY": SECRET}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("settings")
    script(folder, "Hello.", name="hello")
    script(folder, python("acted = 1"), "Done.", name="acts")
    return folder


@pytest.fixture
def workspace_file(folder: Path) -> Iterator[Path]:
    path = folder / "ipyagent.yaml"
    yield path
    path.unlink(missing_ok=True)


def origin(shared: Kernel, key: str) -> str:
    (line,) = shared.run(f"%agent config {key}").stdout.splitlines()[:1]
    return line


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    """The file with the user's settings, which is not there yet."""
    path = tmp_path / "config" / "ipyagent" / "config.yaml"
    path.parent.mkdir(parents=True)
    return path


def homes(tmp_path: Path) -> dict[str, str]:
    return {f"XDG_{name.upper()}_HOME": str(tmp_path / name) for name in ("config", "data")}


@pytest.mark.spec("A57")
def test_each_source_of_settings_overrides_lower_ones(
    folder: Path, tmp_path: Path, workspace_file: Path, user_file: Path
) -> None:
    env = homes(tmp_path)
    with kernel(folder, **env) as plain:
        assert "default" in origin(plain, "agent.max_steps")
        user_file.write_text("agent: {max_steps: 15}")
        assert "15" in origin(plain, "agent.max_steps")
        assert "config.yaml" in origin(plain, "agent.max_steps")
        (folder / "pyproject.toml").write_text("[tool.ipyagent.agent]\nmax_steps = 14\n")
        assert "pyproject.toml" in origin(plain, "agent.max_steps")
        workspace_file.write_text("agent: {max_steps: 13}")
        assert "ipyagent.yaml" in origin(plain, "agent.max_steps")
        (folder / "pyproject.toml").unlink()
    with kernel(folder, IPYAGENT_AGENT__MAX_STEPS="12", **env) as with_variable:
        assert "12" in origin(with_variable, "agent.max_steps")
        with_variable.run("%agent config agent.max_steps=11")
        assert "11" in origin(with_variable, "agent.max_steps")
        (folder / "cell.yaml").write_text("agent: {max_steps: 10}")
        run = with_variable.run("%%agent -m scripted/hello.yaml --config cell.yaml\nBegin.").run
        assert run["max_steps"] == 10
        cell = "%%agent -m scripted/hello.yaml --config cell.yaml --max-steps 9\nBegin."
        assert with_variable.run(cell).run["max_steps"] == 9


@pytest.mark.spec("A01")
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("llm.modle=x", "llm.modle is not a setting; did you mean llm.model?"),
        ("llm.modle", "llm.modle is not a setting; did you mean llm.model?"),
        ("agent.max_steps=many", "agent.max_steps"),
        ("llm.mode=proxy", "llm.api_base"),
    ],
)
def test_a_wrong_setting_is_refused_with_the_nearest_right_one(
    shared: Kernel, line: str, said: str
) -> None:
    before = shared.run("%agent config").stdout
    assert said in shared.run(f"%agent config {line}").stdout
    assert shared.run("%agent config").stdout == before


HOSTILE = """
agnet: {max_steps: 3}
agent: {system_prompt: x, system_prompt_path: y, max_steps: soon}
policy: {rules: [{tool: "*", effect: allow}]}
mcp: {servers: 7}
workspace: {root: not/there}
"""


@pytest.mark.spec("A01", "A41")
@pytest.mark.parametrize("text", [HOSTILE, "agent: {max_steps"])
def test_an_error_in_an_untrusted_folders_settings_is_reported_and_stops_nothing(
    shared: Kernel, workspace_file: Path, text: str
) -> None:
    workspace_file.write_text(text)
    run = shared.run("%%agent -m scripted/hello.yaml\nBegin.").run
    assert run["status"] == "done"
    assert len([note for note in run["notes"] if note.startswith("ipyagent.yaml")]) in {1, 2}
    for command in ("status", "config", "mcp list", "tools", "policy", "skills", "help"):
        reply = shared.run(f"%agent {command}")
        assert (reply.status, reply.stderr) == ("ok", "")
        assert not reply.stdout.startswith("ipyagent:"), reply.stdout
    assert "ipyagent.yaml" in shared.run("%agent config").stdout
    assert "ipyagent.yaml" in shared.run("%agent trust").stdout


@pytest.mark.spec("A01")
def test_an_error_in_the_users_settings_file_is_raised_and_shown_in_the_status(
    folder: Path, tmp_path: Path, user_file: Path
) -> None:
    cell = "%%agent -m scripted/hello.yaml\nBegin."
    with kernel(folder, **homes(tmp_path)) as started:
        started.run(cell)
        user_file.write_text("agent:\n  max_steps: 15\nagnet: {max_steps: 3}")
        error = started.run(cell).run["error"]
        assert "did you mean agent" in error
        assert "line 3" in error
        for command, line in [("status", "disabled until"), ("trust", "nothing to trust")]:
            assert line in started.run(f"%agent {command}").stdout
        assert started.run("%agent status").stdout.count("config.yaml, line 3: agnet") == 1
        assert "config.yaml, line 3: agnet" in started.run("%agent config").stdout
        user_file.write_text("agent:\n  max_steps: 15\n")
        assert "disabled" not in started.run("%agent status").stdout
        assert "15" in origin(started, "agent.max_steps")


def test_a_workspace_file_only_tightens_until_it_is_trusted(
    folder: Path, tmp_path: Path, workspace_file: Path
) -> None:
    workspace_file.write_text("agent: {confirm_mode: yolo}")
    with kernel(folder, XDG_DATA_HOME=str(tmp_path)) as started:
        cell = "%%agent --fresh -m scripted/acts.yaml\nBegin."
        run = started.run(cell).run
        assert run["confirm_mode"] == "confirm-sensitive"
        assert run["steps"][0]["executions"][0]["status"] == "denied"
        assert any("%agent trust" in note for note in run["notes"])
        assert "yolo" in started.run("%agent trust").stdout
        assert started.run(cell).run["confirm_mode"] == "yolo"
        workspace_file.write_text("agent: {confirm_mode: yolo, max_steps: 3}")
        assert started.run(cell).run["confirm_mode"] == "confirm-sensitive"
        workspace_file.write_text("agent: {confirm_mode: confirm-all}")
        assert started.run(cell).run["confirm_mode"] == "confirm-all"


@pytest.mark.spec("A24", "A50", "A10")
def test_a_profile_is_chosen_by_name(
    asking_kernel: Kernel, server: ModelServer, tmp_path: Path
) -> None:
    (tmp_path / "ipyagent.yaml").write_text(
        "agents: {reviewer: {system_prompt: 'You review.', max_steps: 4, allowed_tools: read_file}}"
    )
    server.replies = [answer("One."), answer("Two."), answer("Three.")]
    for cell in ("%%agent reviewer\nBegin.", "%%agent -a reviewer\nBegin."):
        run = asking_kernel.run(cell).run
        assert run["agent"] == "reviewer"
        assert run["max_steps"] == 4
    for request in server.requests:
        assert "You review." in request.body["messages"][0]["content"]
        assert [t["function"]["name"] for t in request.body["tools"]] == ["read_file"]
    refused = asking_kernel.run("%%agent reviewr\nBegin.").run
    assert "reviewr" in refused["error"]
    assert "did you mean reviewer?" in refused["error"]
    assert asking_kernel.run("%%agent review here\nBegin.").run["prompt"] == "review here\nBegin."


@pytest.mark.spec("A10", "M07")
def test_instructions_can_come_from_a_file_and_a_missing_file_is_reported(
    asking_kernel: Kernel, server: ModelServer, tmp_path: Path
) -> None:
    (tmp_path / "ipyagent.yaml").write_text("agent: {system_prompt_path: house.md}")
    server.replies = [answer("One."), answer("Two.")]
    run = asking_kernel.run("%%agent\nBegin.").run
    assert any("house.md" in note for note in run["notes"])
    (tmp_path / "house.md").write_text("Speak like a pirate.")
    assert not asking_kernel.run("%%agent\nBegin.").run["notes"]
    first, second = (r.body["messages"][0]["content"] for r in server.requests)
    assert "pirate" not in first
    assert second.startswith(first)
    assert second.endswith("Speak like a pirate.")


@pytest.mark.spec("A16")
def test_v_expands_more_of_the_card(shared: Kernel) -> None:
    runs = {
        v: shared.run(
            f"%%agent {v} -m scripted/acts.yaml --confirm yolo\nBegin.", page=Page(shared)
        )
        for v in ("", "-v", "-vv", "-vvv")
    }
    assert [reply.run["verbose"] for reply in runs.values()] == [0, 1, 2, 3]
    pages = [reply.of("update_display_data")[0]["data"]["text/html"] for reply in runs.values()]
    opened = [len(re.findall(r"<details[^>]* open", page)) for page in pages]
    assert opened[0] < opened[1] < opened[2]
    assert len(pages[2]) < len(pages[3])


@pytest.mark.spec("P08")
def test_a_trace_id_is_accepted_and_reaches_the_service_and_the_card(
    asking_kernel: Kernel, server: ModelServer, tmp_path: Path
) -> None:
    server.replies = [answer("One."), answer("Two.")]
    asking_kernel.run("%agent config logging.file=runs.jsonl")
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    reply = asking_kernel.run(f"%%agent --trace-id {trace_id}\nBegin.", page=Page(asking_kernel))
    assert reply.run["trace_id"] == trace_id
    assert trace_id in reply.of("update_display_data")[0]["data"]["text/html"]
    made = asking_kernel.run("%%agent\nBegin.").run["trace_id"]
    bad = asking_kernel.run("%%agent --trace-id 'no good\x1b'\nBegin.").run["error"]
    assert "trace-id" in bad or "trace id" in bad
    headers = [{k.lower(): v for k, v in r.headers.items()} for r in server.requests]
    assert [h["x-trace-id"] for h in headers] == [trace_id, made]
    lines = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert {line["trace_id"] for line in lines} == {trace_id, made}


@pytest.mark.spec("H20")
def test_a_config_file_that_is_missing_or_a_folder_is_reported(
    shared: Kernel, folder: Path
) -> None:
    (folder / "a_folder").mkdir(exist_ok=True)

    def error(path: str) -> str:
        cell = f"%%agent --config {path} -m scripted/hello.yaml\nBegin."
        return str(shared.run(cell).run["error"])

    assert "nowhere.yaml: there is no such file" in error("nowhere.yaml")
    (folder / "here.yaml").write_text("agent: {max_steps: 6}")
    shared.run("import os; os.chdir('/')")
    run = shared.run("%%agent --config here.yaml -m scripted/hello.yaml\nBegin.").run
    assert run["max_steps"] == 6
    shared.run(f"os.chdir({str(folder)!r})")
    assert "a_folder: there is no such file" in error("a_folder")


@pytest.mark.spec("A06")
def test_secrets_are_in_no_output_of_the_notebook(
    asking_kernel: Kernel, server: ModelServer, tmp_path: Path
) -> None:
    server.replies = [answer("Hello.")]
    replies = [
        asking_kernel.run(cell) for cell in ("%%agent\nBegin.", "%agent config", "%agent status")
    ]
    replies.append(asking_kernel.run(f"%agent config llm.api_key={SECRET}"))
    replies.append(asking_kernel.run("%agent config llm.api_key"))
    replies.append(asking_kernel.run(f"%agent config llm.timeout={SECRET}"))
    headers = {name.lower(): value for name, value in server.requests[0].headers.items()}
    assert headers["authorization"] == f"Bearer {SECRET}"
    assert SECRET not in json.dumps([reply.messages for reply in replies], default=str).replace(
        f"%agent config llm.api_key={SECRET}", ""
    ).replace(f"%agent config llm.timeout={SECRET}", "")
    assert SECRET.encode() not in (tmp_path / ".ipyagent/state.db").read_bytes()


@pytest.mark.spec("P10")
def test_without_a_writable_journal_nothing_runs_until_the_user_turns_it_off(
    fresh: Kernel,
    tmp_path: Path,
) -> None:
    option = script(tmp_path, python("acted = 1"), "Ok.")
    (tmp_path / ".ipyagent").write_text("a file stands where the folder should be")
    cell = f"%%agent {option} --confirm yolo\nBegin."
    run = fresh.run(cell).run
    assert run["status"] == "error"
    assert "chat.persist=false" in run["error"]
    assert fresh.value("'acted' in globals()") == "False"
    fresh.run("%agent config chat.persist=false")
    assert fresh.run(cell).run["status"] == "done"
    assert fresh.value("acted") == "1"


@pytest.mark.spec("H24", "H26")
def test_the_prompts_of_cells_pass_validators(fresh: Kernel, tmp_path: Path) -> None:
    script(tmp_path, "Hello.", name="hello")
    (tmp_path / "guard.py").write_text(
        "def check(prompt):\n    if 'salary' in prompt: raise ValueError('Not about salaries.')\n"
    )
    append = "import ipyagent\nipyagent.Session.current().validators.append(no_names)"
    cell = "%%agent -m scripted/hello.yaml\n{}"
    fresh.run("def no_names(prompt):\n    if 'Ann' in prompt: raise ValueError('No names.')")
    assert fresh.run(append).status == "ok"
    refused = fresh.run(cell.format("Who is Ann?"))
    assert (refused.status, refused.run["status"], refused.run["error"]) == (
        "ok",
        "error",
        "No names.",
    )
    fresh.run("%agent config chat.validators=guard:check")
    unknown = fresh.run(cell.format("The salary?")).run
    assert "do not trust" in unknown["error"]
    assert fresh.run("import sys; print('guard' in sys.modules)").stdout == "False\n"
    fresh.run("import guard")
    assert fresh.run(cell.format("The salary?")).run["error"] == "Not about salaries."
    raising = fresh.run("%%agent --raise -m scripted/hello.yaml\nThe salary?")
    assert (raising.status, raising.content["evalue"]) == ("error", "Not about salaries.")
    answered = fresh.run(cell.format("Hello?")).run
    assert answered["status"] == "done"
