"""Where settings come from: files, the environment, the line."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from ipyagent.config import (
    Layer,
    base_layers,
    from_assignment,
    from_environment,
    from_file,
    late_variables,
    merge,
    resolve_config,
    resolve_layers,
    user_file,
    workspace_layers,
)
from ipyagent.config.sources import MAX_BYTES, describe_lines
from ipyagent.errors import ConfigError


@pytest.mark.spec("A04", "P09")
def test_the_environment_names_sections_and_keys() -> None:
    environ = {
        "IPYAGENT_LLM__API_BASE": "http://localhost:1/v1",
        "IPYAGENT_AGENT__MAX_STEPS": "3",
        "IPYAGENT_AGENT__ALLOWED_TOOLS": "read_file, list_files",
        "IPYAGENT_AGENTS__REVIEWER__MAX_USD": "0.5",
        "IPYAGENT_WORKSPACE__ALLOW_DELETE": "true",
        "IPYAGENT_LLM__RETRY__MAX_RETRIES": "0",
        "IPYAGENT_LLM__STREAM": "off",
        "IPYAGENT_LOGGING__VERBOSE": "2",
        "IPYAGENT_MODEL": "ollama/qwen3",
        "PATH": "/bin",
    }
    config = resolve_config(from_environment(environ))
    assert config.llm.api_base == "http://localhost:1/v1"
    assert config.agent.max_steps == 3
    assert config.agent.allowed_tools == ("read_file", "list_files")
    assert config.agents["reviewer"].max_usd == 0.5
    assert config.workspace.allow_delete
    assert config.llm.retry.max_retries == 0
    assert not config.llm.stream
    assert config.logging.verbose == 2
    assert config.llm.model == "ollama/qwen3"


@pytest.mark.spec("A01")
@pytest.mark.parametrize(
    "environ",
    [
        {"IPYAGENT_LLM__MODLE": "x"},
        {"IPYAGENT_LLM": "x"},
        {"IPYAGENT_LLM": "{}", "IPYAGENT_LLM__MODEL": "x"},
        {"IPYAGENT_LLM__RETRY": "1", "IPYAGENT_LLM__RETRY__MAX_DELAY__X": "x"},
        {"IPYAGENT_": "x"},
        {"IPYAGENT_AGENT__MAX_STEPS": "many"},
        {"IPYAGENT_LLM____MODEL": "x"},
    ],
)
def test_a_variable_that_is_wrong_is_named(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="IPYAGENT"):
        resolve_config(from_environment(environ))


PINNED = [
    "IPYAGENT_LLM__API_BASE",
    "IPYAGENT_LLM__API_KEY",
    "IPYAGENT_LLM__API_KEY_ENV",
    "IPYAGENT_LLM__MODE",
    "IPYAGENT_LLM__PROVIDER",
    "IPYAGENT_llm__Api_Base",
    "IPYAGENT_AGENT__CONFIRM_MODE",
    "IPYAGENT_AGENT__ALLOWED_TOOLS",
    "IPYAGENT_AGENT__WORKSPACE_DIR",
    "IPYAGENT_AGENTS__X__CONFIRM_MODE",
    "IPYAGENT_WORKSPACE__ROOT",
    "IPYAGENT_WORKSPACE__ALLOW_DELETE",
    "IPYAGENT_TOOLS__PYTHON",
    "IPYAGENT_TOOLS__ENABLE_FILE_TOOLS",
    "IPYAGENT_LOGGING__FILE",
    "IPYAGENT_CHAT__PERSIST",
]


@pytest.mark.parametrize("name", PINNED)
def test_what_decides_about_keys_and_questions_is_not_taken_from_a_late_variable(name: str) -> None:
    """A `.env` that somebody loads writes into the same environment."""
    environ = {name: "1", "IPYAGENT_AGENT__MAX_STEPS": "2"}
    naive = from_environment(environ)
    assert naive.values != {"agent": {"max_steps": "2"}}
    assert from_environment(environ, {}).values == {"agent": {"max_steps": "2"}}
    assert late_variables(environ, {}) == [name]
    assert from_environment(environ, environ).values == naive.values
    assert late_variables(environ, environ) == []
    assert late_variables(environ, {**environ, name: "0"}) == [name]


@pytest.mark.parametrize("name", ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"])
def test_a_late_variable_cannot_bring_a_strangers_file_as_the_persons(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = dict(os.environ)
    monkeypatch.delenv("XDG_CONFIG_HOME")
    moved = folder / (".config/ipyagent" if name == "HOME" else "ipyagent")
    moved.mkdir(parents=True)
    (moved / "config.yaml").write_text("agent: {confirm_mode: yolo}")
    monkeypatch.setenv(name, str(folder))
    if name != "XDG_DATA_HOME":
        assert resolve_config(from_file(user_file())).agent.confirm_mode == "yolo"  # the naive way
    with pytest.raises(ConfigError, match=name):
        base_layers(os.environ, start, folder)
    assert base_layers(os.environ, dict(os.environ), folder)


def test_a_file_is_read_as_sections_and_no_file_is_nothing(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    assert from_file(path).values == {}
    for empty in ("", "# nothing\n", "---\n"):
        path.write_text(empty)
        assert from_file(path).values == {}
    path.write_text("llm:\n  model: ollama/qwen3\n")
    assert resolve_config(from_file(path)).llm.model == "ollama/qwen3"


BROKEN = {
    "unclosed": "llm: [",
    "a list": "- a list",
    "text": "just text",
    "false": "false",
    "two colons": "llm: model: x",
    "a tab": "\tllm: x",
    "an unknown tag": "llm: !python/object/apply:os.system [id]",
    "an unknown alias": "llm: *other",
    "a list as a key": "? [a]\n: b",
    "no such day": "llm: 2001-99-99",
    "a long number": "llm: " + "9" * 5000,
    "deep": "[" * 1000,
    "a control character": "llm: \x00",
    "not UTF-8": b"llm: \xff",
    "huge": "#" * (MAX_BYTES + 1),
}


def notice_of(folder: Path, name: str) -> str:
    """The one notice that a folder's files give, which is about the file of that name."""
    layers = workspace_layers(folder)
    assert not any(layer.values for layer in layers)
    (notice,) = (notice for layer in layers for notice in layer.notices)
    assert notice.startswith(name)
    return notice


@pytest.mark.spec("A01")
@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_named_in_every_place(
    broken: str | bytes, folder: Path, own_folders: Path
) -> None:
    data = broken if isinstance(broken, bytes) else broken.encode()
    (folder / "ipyagent.yaml").write_bytes(data)
    assert len(notice_of(folder, "ipyagent.yaml")) < 230
    user_file().parent.mkdir(parents=True)
    user_file().write_bytes(data)
    with pytest.raises(ConfigError, match=r"config\.yaml"):
        base_layers({}, None)


@pytest.mark.spec("A01")
@pytest.mark.parametrize(
    "broken",
    [
        "a = ",
        "[tool.ipyagent",
        "tool = 3",
        "[tool]\nipyagent = 3",
        "a = 1\na = 2",
        "\x00",
        "a = " + "[" * 5000,
    ],
)
def test_a_broken_pyproject_is_named(broken: str, folder: Path) -> None:
    (folder / "pyproject.toml").write_text(broken)
    notice_of(folder, "pyproject.toml")


def test_what_is_no_regular_file_or_unreadable_is_said_at_once(folder: Path) -> None:
    path = folder / "ipyagent.yaml"
    os.mkfifo(path)
    assert "not a file" in notice_of(folder, "ipyagent.yaml")
    path.unlink()
    path.symlink_to("/dev/zero")
    assert "not a file" in notice_of(folder, "ipyagent.yaml")
    path.unlink()
    path.symlink_to(path.name)
    assert all(not layer.values for layer in workspace_layers(folder))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_must_not_be_read_is_said(folder: Path) -> None:
    path = folder / "ipyagent.yaml"
    path.touch(mode=0o000)
    assert "cannot be read" in notice_of(folder, "ipyagent.yaml")


@pytest.mark.spec("A01")
@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("llm: {modle: x}", "llm.modle is not a setting; did you mean llm.model?"),
        ("lmm: {model: x}", "did you mean llm?"),
        ("LLM: {model: x}", "did you mean llm?"),
        ("llm: {Api_Base: x}", "did you mean llm.api_base?"),
        ("llm: {max_steps: 3}", "did you mean agent.max_steps?"),
        ("model: x", "did you mean llm.model?"),
        ("llm.model: x", "write model inside of the section llm"),
        ("llm: {retry.max_delay: 3}", "write max_delay inside of the section llm.retry"),
        ("llm: {retry: {max_retry: 3}}", "did you mean llm.retry.max_retries?"),
        ("agents: {me: {max_step: 3}}", "did you mean agents.me.max_steps?"),
        ("tools: {teleport: true}", "there are: tools.files, tools.python, tools.namespace"),
        ("teleport: true", "there are: agent, agents, chat"),
        ("1: true", "1 is not a setting"),
        ("chat: {verbose: 1}", "chat.verbose is not a setting; use logging.verbose"),
        ("chat: {agent_config_path: x}", "use --config PATH"),
        ("agent: {max_steps: 0}", "agent.max_steps: "),
        ("agent: {confirm_mode: never}", "'confirm-all' or 'yolo'"),
        ("agent: fast", "agent: "),
        ("agents: {me: fast}", "agents.me: "),
        ("llm: {retries: 1, retry: {max_retries: 2}}", "llm: retries and retry.max_retries"),
    ],
)
def test_a_wrong_key_names_its_file_and_the_nearest_right_one(
    text: str, hint: str, tmp_path: Path
) -> None:
    path = tmp_path / "here.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        resolve_config(from_file(path))
    assert str(caught.value).startswith(f"{path}, line 1: ")
    assert hint in str(caught.value)


def test_every_wrong_key_is_named_and_none_can_draw_on_the_screen() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_config(Layer("here", {"llm": {"a\x1b[2J\nb": 1}, "agent": {"max_steps": "x"}}))
    assert "llm.a⟨U+001B⟩[2J↵b is not a setting" in str(caught.value)
    assert "agent.max_steps" in str(caught.value)


def test_of_a_file_full_of_wrong_keys_the_first_are_told(folder: Path) -> None:
    keys = [f"k{n}" + "x" * 1000 for n in range(200)]
    (folder / "ipyagent.yaml").write_text("\n".join(f"{key}: 1" for key in keys))
    (notice,) = resolve_layers(*workspace_layers(folder)).notices
    assert re.search(r"k4.* and 195 more", notice)
    assert len(notice) < 1500


def test_an_assignment_sets_one_key_and_a_wrong_one_is_explained() -> None:
    layer = from_assignment("agent.max_steps = 4")
    assert (resolve_config(layer).agent.max_steps, layer.source) == (4, "%agent")
    assert resolve_config(from_assignment("llm.model=a=b")).llm.model == "a=b"
    for wrong in (
        "agent.max_step=4",
        "agent.max_steps",
        "agent.max_steps=many",
        "=",
        ".=1",
        "a..b=1",
    ):
        with pytest.raises(ConfigError, match="%agent"):
            from_assignment(wrong)


@pytest.mark.spec("A03")
def test_an_assignment_is_judged_over_what_holds_already() -> None:
    with pytest.raises(ConfigError, match=r"llm\.api_base must say"):
        from_assignment("llm.mode=proxy")
    base = Layer("below", {"llm": {"api_base": "http://proxy"}})
    assert resolve_config(base, from_assignment("llm.mode=proxy", base)).llm.mode == "proxy"


def test_merged_sections_keep_what_only_one_has() -> None:
    below = {"llm": {"model": "a", "retry": {"max_delay": 1}}, "agent": {"max_steps": 1}}
    above = {"llm": {"model": "b", "retry": {"max_retries": 2}}, "chat": {"persist": False}}
    assert merge(below, above) == {
        "llm": {"model": "b", "retry": {"max_delay": 1, "max_retries": 2}},
        "agent": {"max_steps": 1},
        "chat": {"persist": False},
    }


# The line of a setting


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("llm:\n  model: [open\n", "config.yaml is not YAML: look at line 3"),
        ("agent:\n  max_steps: 7\nllm:\n  modle: x\n", "config.yaml, line 4: llm.modle"),
        ("agent:\n  max_step: 7\n  max_usd: lots\n", "config.yaml, lines 2 and 3: "),
        ("- a list\n", "config.yaml: expected sections"),
        ("agent:\n  max_steps: many\n", "config.yaml, line 2: agent.max_steps"),
    ],
)
def test_an_error_in_the_users_file_names_its_line(text: str, problem: str) -> None:
    user_file().parent.mkdir(parents=True)
    user_file().write_text(text)
    with pytest.raises(ConfigError, match=problem):
        resolve_config(from_file(user_file()))


@pytest.mark.parametrize(
    ("text", "keys", "place"),
    [
        ("a:\n  b: 1\n  c:\n  - 1\n  - d: 2\n", [("a", "b")], ", line 2"),
        ("a:\n  b: 1\n  c:\n  - 1\n  - d: 2\n", [("a", "c", 1, "d")], ", line 5"),
        ("a:\n  b: 1\n", [("a", "b", "int"), ("a", "missing")], ", lines 1 and 2"),
        ("a: 1\n", [("b",), ()], ""),
        ("{", [("a",)], ""),
        ("", [("a",)], ""),
        ("? [1, 2]\n: 3\na: 1\n", [("a",)], ", line 3"),
        ("&x a: *x\n", [("a", "a")], ", line 1"),
    ],
)
def test_a_setting_is_found_in_its_text(
    text: str, keys: list[tuple[object, ...]], place: str
) -> None:
    assert describe_lines(text.encode(), keys) == place
