"""Which tools there are, by the settings."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness import Lab, new_session
from ipyagent.config import Config, Layer, resolve_config
from ipyagent.kernel.namespace import Namespace
from ipyagent.services.mcp import NamedServers, ServerSources
from ipyagent.tools.base import Toolbox, tool
from ipyagent.tools.workspace import Workspace
from ipyagent.wiring import Environment

FILES = {
    "list_files",
    "read_file",
    "inspect_file",
    "write_file",
    "edit_file",
    "delete_file",
    "search_files",
}
ALWAYS = {"todo_write", "ask_user"}
GROUPS = {
    "files": FILES,
    "namespace": {"list_variables", "inspect_variable"},
    "python": {"run_python"},
    "notebook": {"read_notebook", "insert_cell", "edit_cell"},
    "scripts": {"python_script"},
    "notes": {"record_note", "recall_notes"},
}


def offered(tmp_path: Path, config: Config) -> set[str]:
    return {tool.name for tool in Lab(tmp_path).environment.toolset.build(config)}


@pytest.mark.spec("M08")
def test_all_groups_are_there_but_the_shell(tmp_path: Path) -> None:
    found = offered(tmp_path, Config())
    assert found >= ALWAYS.union(*GROUPS.values(), {"query"})
    assert "run_shell" not in found


def test_a_tool_of_the_users_own_takes_the_place_of_query(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"query": tool(name="query")(lambda: "mine")})
    found = lab.environment.toolset.build(Config())
    assert found.get("query").function() == "mine"


@pytest.mark.spec("M08")
@pytest.mark.parametrize("group", GROUPS)
def test_a_group_that_is_switched_off_is_gone(tmp_path: Path, group: str) -> None:
    config = resolve_config(Layer("the test", {"tools": {group: False}}))
    gone = offered(tmp_path, Config()) - offered(tmp_path, config)
    assert gone >= GROUPS[group]
    assert not gone & ALWAYS.union(*(names for each, names in GROUPS.items() if each != group))
    assert ("query" in gone) is (group in ("files", "namespace")), "it reads both"


@pytest.mark.spec("M08", "M27")
@pytest.mark.parametrize("name", ["shell", "enable_bash"])
def test_the_shell_is_there_when_it_is_switched_on(tmp_path: Path, name: str) -> None:
    config = resolve_config(Layer("the test", {"tools": {name: True}}))
    assert offered(tmp_path, config) - offered(tmp_path, Config()) == {"run_shell"}


@pytest.mark.spec("M08")
def test_skills_and_servers_are_left_alone_where_they_are_switched_off(tmp_path: Path) -> None:
    skill = tmp_path / ".ipyagent" / "skills" / "one"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\ndescription: Do one thing.\n---\nDo it.\n")
    server = {"name": "gone", "url": "http://127.0.0.1:1/mcp"}
    for on in (True, False):
        lab = Lab(tmp_path)
        tools = {"skills": on, "mcp": on}
        run = lab.run(["Hello."], settings={"tools": tools, "mcp": {"servers": [server]}})
        (request,) = lab.client.requests
        assert ("get_skill" in {tool.name for tool in request.tools}) is on
        assert ("Do one thing." in request.messages[0].text) is on
        assert any("gone" in note for note in run.notes) is on


def test_the_sources_of_servers_are_read_once_a_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, collect = list[ServerSources](), ServerSources.collect

    def count(sources: ServerSources) -> NamedServers:
        reads.append(sources)
        return collect(sources)

    monkeypatch.setattr(ServerSources, "collect", count)
    server = {"name": "gone", "url": "http://127.0.0.1:1/mcp"}
    run = Lab(tmp_path).run(["Hello."], settings={"mcp": {"servers": [server]}})
    assert any("gone" in note for note in run.notes)
    assert len(reads) == 1


@pytest.mark.spec("M23")
def test_a_skill_that_cannot_be_read_is_told_of_where_there_is_no_other(tmp_path: Path) -> None:
    skill = tmp_path / ".ipyagent" / "skills" / "broken"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_bytes(b"\xff\xfe\x00bad")
    run = Lab(tmp_path).run(["Hello."])
    assert any("skills/broken" in note for note in run.notes)


@pytest.mark.parametrize("variables", [{}, {"api_key": "a1b2c3d4e5f6"}])
def test_the_redactor_and_tools_of_a_run_serve_the_next_one(
    tmp_path: Path, variables: dict[str, Any]
) -> None:
    lab = Lab(tmp_path, variables)
    first, second = (lab.environment.toolset.redactor({"hunter22hunter22"}) for _ in range(2))
    assert first is second
    boxes = [
        lab.environment.toolset.build(Config(), redactor=first, session=lab.session)
        for _ in range(2)
    ]
    for name in ("read_file", "write_file", "run_python", "python_script", "record_note"):
        assert boxes[0].get(name) is boxes[1].get(name)


@pytest.mark.parametrize(
    "changed", ["settings", "session", "secret", "new variable", "variable that is gone"]
)
def test_a_run_has_tools_and_a_redactor_of_its_own_after_a_change(
    tmp_path: Path, changed: str
) -> None:
    lab = Lab(tmp_path, {"api_key": "a1b2c3d4e5f6"})
    environment, config, session = lab.environment, Config(), lab.session
    redactor = environment.toolset.redactor({"hunter22hunter22"})
    before = environment.toolset.build(config, redactor=redactor, session=session)
    secret = "hunter22hunter22"
    match changed:
        case "settings":
            config = resolve_config(Layer("the test", {"workspace": {"allow_delete": True}}))
        case "session":
            session = new_session()
        case "secret":
            secret = "correct horse battery"
        case "new variable":
            lab.variables["password"] = "tr0ub4dor&3"
        case "variable that is gone":
            del lab.variables["api_key"]
    after_change = environment.toolset.redactor({secret})
    after = environment.toolset.build(config, redactor=after_change, session=session)
    assert after.get("write_file") is not before.get("write_file")
    assert (after_change is redactor) is (changed in ("settings", "session"))
    assert secret not in after_change.text(f"It is {secret}.")
    for value in lab.variables.values():
        assert value not in after_change.text(f"It is {value}.")


def test_what_an_earlier_run_previewed_does_not_bind_a_later_one(tmp_path: Path) -> None:
    """Kept tools that remembered it would refuse: the files are other ones by then."""
    lab, file = Lab(tmp_path), tmp_path / "a.txt"
    redactor = lab.environment.toolset.redactor(())

    def begin_run() -> Toolbox:
        return lab.environment.toolset.build(Config(), redactor=redactor, session=lab.session)

    first = begin_run()
    script = asyncio.run(first.get("python_script")(action="create", content="print(1)")).value
    wanted = {"action": "run", "file_id": script.file_id, "content": None, "timeout": None}
    write, run = first.get("write_file").preview, first.get("python_script").preview
    assert write
    assert run
    write(path="a.txt", content="new", mode="overwrite")
    run(**wanted)
    file.write_text("by the user")
    Path(script.file_path).write_text("print(2)")
    second = begin_run()
    assert second.get("write_file") is first.get("write_file")
    second.get("write_file")(path="a.txt", content="new", mode="overwrite")
    assert file.read_text() == "new"
    assert "2" in asyncio.run(second.get("python_script")(**wanted)).output


def test_settings_are_beside_the_notebook_and_else_in_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    workspace, namespace = Workspace(tmp_path / "data"), Namespace({})
    for home in (tmp_path, None):
        services = Environment(workspace, namespace, home).services_for_run(Config())
        assert (services.folder, services.home) == (workspace.root, home or workspace.root)
