"""Which tools there are, by the settings."""

from pathlib import Path

import pytest

from harness import Lab
from ipyagent.config import Config, Layer, resolve_config

FILES = {"list_files", "read_file", "write_file", "edit_file", "delete_file", "search_files"}
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
    return {tool.name for tool in Lab(tmp_path).environment.build_toolbox(config)}


@pytest.mark.spec("M08")
def test_all_groups_are_there_but_the_shell(tmp_path: Path) -> None:
    assert offered(tmp_path, Config()) == ALWAYS.union(*GROUPS.values())


@pytest.mark.spec("M08")
@pytest.mark.parametrize("group", GROUPS)
def test_a_group_that_is_switched_off_is_gone(tmp_path: Path, group: str) -> None:
    config = resolve_config(Layer("the test", {"tools": {group: False}}))
    assert offered(tmp_path, Config()) - offered(tmp_path, config) == GROUPS[group]


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
        assert lab.client is not None
        (request,) = lab.client.requests
        assert ("get_skill" in {tool.name for tool in request.tools}) is on
        assert ("Do one thing." in request.messages[0].text) is on
        assert any("gone" in note for note in run.notes) is on


@pytest.mark.spec("M23")
def test_a_skill_that_cannot_be_read_is_told_of_where_there_is_no_other(tmp_path: Path) -> None:
    skill = tmp_path / ".ipyagent" / "skills" / "broken"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_bytes(b"\xff\xfe\x00bad")
    run = Lab(tmp_path).run(["Hello."])
    assert any("skills/broken" in note for note in run.notes)
