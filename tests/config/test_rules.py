"""Rules as they are written: their shape, what is wrong with some, and how sources add up."""

from pathlib import Path
from typing import Any

import pytest

from ipyagent.config import (
    Config,
    Layer,
    Rule,
    from_assignment,
    from_environment,
    from_file,
    late_variables,
    resolve_config,
    resolve_layers,
    setting_rows,
    workspace_layers,
)
from ipyagent.config.rules import Subject, argument_text
from ipyagent.errors import ConfigError
from ipyagent.plaintext import visible


def rules(*rules: dict[str, Any]) -> Layer:
    return Layer("here", {"policy": {"rules": list(rules)}})


def example(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"tool": tool, "arguments": arguments}


def test_rules_read_well_in_yaml(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        """
        policy:
          rules:
            - effect: deny
              tool: read_file, search_files
              path: patients/**
              reason: patients' data stays here
            - {effect: ask, tool: [write_file]}
            - effect: allow
              tool: write_file
              path: reports/*.md
              arguments: {mode: overwrite}
              examples:
                match: [{tool: write_file, arguments: {path: reports/a.md, mode: overwrite}}]
                no_match:
                  - {tool: write_file, arguments: {path: reports/../a.md, mode: overwrite}}
                  - {tool: write_file, arguments: {path: reports/a.md}}
        """
    )
    deny, ask, allow = resolve_config(from_file(path)).policy.rules
    assert deny.explanation == f"{path} denies it: patients' data stays here"
    assert ask.explanation == f"{path}: ask write_file"
    assert str(allow) == "allow write_file, path reports/*.md, mode=overwrite"
    assert deny.tool == ("read_file", "search_files")
    config = resolve_config(from_file(path))
    assert Config.from_dict(config.to_dict()) == config


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "policy.rules.0.effect: Field required"),
    ({"effect": "Deny"}, "policy.rules.0.effect: Input should be"),
    ({"effect": "deny", "tols": "x"}, "tols is not a setting; did you mean policy.rules.0.tool"),
    ({"effect": "deny", "xyzzy": 1}, "policy.rules.0.arguments, policy.rules.0.path"),
    ({"effect": "deny", "tool": ""}, "tool names no tool"),
    ({"effect": "deny", "tool": "*_file, run-pyhton"}, "run-pyhton; did you mean run_python?"),
    ({"effect": "ask", "tool": "Read_fil"}, "did you mean read_file?"),
    ({"effect": "allow", "tool": "search_file"}, "did you mean search_files?"),
    ({"effect": "deny", "tool": [1]}, "policy.rules.0.tool"),
    ({"effect": "deny", "path": ""}, "policy.rules.0.path"),
    ({"effect": "deny", "path": "../x"}, "from the workspace's root"),
    ({"effect": "deny", "path": "a/../b"}, "from the workspace's root"),
    ({"effect": "deny", "path": "~/x"}, "from the workspace's root"),
    ({"effect": "deny", "path": "a" * 301}, "policy.rules.0.path"),
    ({"effect": "deny", "reason": "a" * 301}, "policy.rules.0.reason"),
    ({"effect": "deny", "arguments": {"a": ["b"]}}, "policy.rules.0.arguments.a"),
    ({"effect": "deny", "source": "the person"}, "filled in, not set"),
    ({"effect": "allow"}, "has to name a tool"),
    ({"effect": "allow", "tool": "*", "path": "x/**"}, "has to name a tool"),
    ({"effect": "allow", "tool": "write_file, ?*"}, "has to name a tool"),
]


@pytest.mark.parametrize(("rule", "said"), WRONG)
def test_a_rule_that_cannot_be_meant_is_refused_by_its_key(rule: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_config(rules(rule))
    assert str(caught.value).startswith("here: policy.rules.0")
    assert said in str(caught.value)


@pytest.mark.parametrize("value", ["x", "3", "[", "{effect: deny}", "*a", 3, {"effect": "deny"}])
def test_what_is_no_list_of_rules_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match=r"here: policy\.rules"):
        resolve_config(Layer("here", {"policy": {"rules": value}}))


def test_other_spellings_patterns_and_tools_of_one_s_own_are_no_slips() -> None:
    for name in ("READ_FILE", "read_fil*", "[r]ead_files", "mcp_fs_read_file", "deploy", "shell"):
        assert resolve_config(rules({"effect": "deny", "tool": name})).policy.rules


def test_no_error_quotes_what_may_be_a_secret() -> None:
    secret = "sk-canary-0123"
    for rule in (
        {"effect": secret},
        {"effect": "deny", "arguments": {"token": [secret]}},
        {"effect": "deny", "tool": "a", "examples": {"match": [example("b", token=secret)]}},
    ):
        with pytest.raises(ConfigError) as caught:
            resolve_config(rules(rule))
        assert secret not in str(caught.value)


HOLDS: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    ({"effect": "deny"}, example("anything"), True),
    ({"effect": "deny", "tool": "run_*"}, example("run_shell", command="ls"), True),
    ({"effect": "deny", "tool": "run_*"}, example("prerun_shell"), False),
    ({"effect": "deny", "tool": "a, b"}, example("b"), True),
    ({"effect": "deny", "tool": "READ_file"}, example("read_file"), True),
    ({"effect": "allow", "tool": "READ_file"}, example("read_file"), False),
    ({"effect": "deny", "path": "x/**"}, example("read_file"), False),
    ({"effect": "deny", "path": "x/**"}, example("read_file", path=["x/a"]), False),
    ({"effect": "deny", "path": "x/**"}, example("read_file", path="./X/../x/a"), True),
    ({"effect": "allow", "tool": "w", "path": "x/**"}, example("w", path="x/a/b"), True),
    ({"effect": "allow", "tool": "w", "path": "x/**"}, example("w", path="X/a"), False),
    ({"effect": "allow", "tool": "w", "path": "x"}, example("w", path="x/a"), False),
    ({"effect": "allow", "tool": "w", "path": "**"}, example("w", path="../x"), False),
    ({"effect": "allow", "tool": "w", "path": "**"}, example("w", path="/etc/passwd"), False),
    ({"effect": "allow", "tool": "w", "path": "**"}, example("w", path="a/b"), True),
    ({"effect": "allow", "tool": "w", "path": "**"}, example("w"), False),
    ({"effect": "deny", "arguments": {"a": "*b*"}}, example("x", a="ABC"), True),
    ({"effect": "deny", "arguments": {"a": "b"}}, example("x", a="b", c=1), True),
    ({"effect": "deny", "arguments": {"a": "b", "c": "2"}}, example("x", a="b", c=1), False),
    ({"effect": "deny", "arguments": {"a": 5}}, example("x", a=5.0), True),
    ({"effect": "deny", "arguments": {"a": "5"}}, example("x", a=5), True),
    ({"effect": "deny", "arguments": {"a": True}}, example("x", a=1), False),
    ({"effect": "deny", "arguments": {"a": True}}, example("x", a=True), True),
    ({"effect": "deny", "arguments": {"a": None}}, example("x"), True),
    ({"effect": "deny", "arguments": {"a": "*"}}, example("x"), True),
    ({"effect": "deny", "arguments": {"a": '*"b"*'}}, example("x", a=["a", "b"]), True),
    ({"effect": "deny", "arguments": {"a": '{"k":1}'}}, example("x", a={"k": 1}), True),
    ({"effect": "allow", "tool": "x", "arguments": {"a": "*b*"}}, example("x", a="ABC"), False),
    ({"effect": "allow", "tool": "x", "arguments": {"a": "*"}}, example("x"), False),
    ({"effect": "allow", "tool": "x", "arguments": {"a": "b?"}}, example("x", a="bc"), True),
    ({"effect": "allow", "tool": "x", "arguments": {"a": False}}, example("x", a=False), True),
    (
        {"effect": "allow", "tool": "run_shell", "arguments": {"command": "make test"}},
        example("run_shell", command="make test"),
        True,
    ),
    (
        {"effect": "allow", "tool": "run_shell", "arguments": {"command": "make test"}},
        example("run_shell", command="make test; id"),
        False,
    ),
]


@pytest.mark.parametrize(("rule", "call", "fits"), HOLDS)
def test_a_rule_is_tried_on_its_examples_when_it_is_loaded(
    rule: dict[str, Any], call: dict[str, Any], fits: bool
) -> None:
    right, wrong = ("match", "no_match") if fits else ("no_match", "match")
    other = {"effect": "ask"}
    resolve_config(rules(other, {**rule, "examples": {right: [call]}}))
    with pytest.raises(ConfigError) as caught:
        resolve_config(rules(other, {**rule, "examples": {right: [call], wrong: [call]}}))
    assert str(caught.value).startswith("here: policy.rules.1: the rule ")
    assert str(caught.value).endswith(f"examples.{wrong}.0")


@pytest.mark.parametrize("tool", ["run_shell", "run_*", "run_shell, read_file"])
@pytest.mark.parametrize("command", ["*", "git *", "ls ?", "make test*"])
def test_a_command_is_not_allowed_by_a_pattern(tool: str, command: str) -> None:
    rule = {"effect": "allow", "tool": tool, "arguments": {"command": command}}
    with pytest.raises(ConfigError, match=r"policy\.rules\.0: run_shell .* write the whole"):
        resolve_config(rules(rule))
    for effect in ("ask", "deny"):
        resolve_config(rules({**rule, "effect": effect}))


@pytest.mark.spec("A57")
def test_the_rules_of_all_sources_add_up(folder: Path) -> None:
    user = Layer("user", {"policy": {"rules": [{"effect": "deny", "tool": "a"}]}})
    (folder / "ipyagent.yaml").write_text("policy: {rules: [{effect: ask, tool: b}]}")
    environ = from_environment({"IPYAGENT_POLICY__RULES": '[{"effect": "deny", "tool": "c"}]'})
    line = from_assignment("policy.rules=[{effect: allow, tool: d}]")
    cell = Layer("cell", {"policy": {"rules": []}})
    layers = (user, *workspace_layers(folder), environ, line, cell)
    settled = resolve_layers(*layers, agent=None)
    assert [(str(each), each.source) for each in settled.config.policy.rules] == [
        ("deny a", "user"),
        ("ask b", "ipyagent.yaml"),
        ("deny c", "the environment (IPYAGENT_…)"),
        ("allow d", "%agent"),
    ]
    (row,) = (row for row in setting_rows(settled) if row.key == "policy.rules")
    assert row.value == "deny a, ask b, deny c, allow d"
    assert row.origin == "user, ipyagent.yaml, the environment (IPYAGENT_…), %agent"
    assert resolve_layers().origins["policy.rules"] == "default"


def test_a_late_variable_adds_no_rules() -> None:
    name = "IPYAGENT_POLICY__RULES"
    environ = {name: "[{effect: allow, tool: run_python}]"}
    assert late_variables(environ, {}) == [name]
    assert resolve_config(from_environment(environ, {})).policy.rules == ()
    assert len(resolve_config(from_environment(environ)).policy.rules) == 1


def test_a_file_that_grows_when_it_is_read_is_refused_at_once(folder: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    bomb = "\n".join(lines)
    for rule in (
        "*a29",
        "[*a29]",
        "[{effect: deny, tool: *a29}]",
        "[{effect: deny, arguments: *a29}]",
        "[{effect: deny, arguments: {a: *a29}}]",
        "[{effect: deny, examples: {match: *a29}}]",
        "[{effect: deny, examples: {match: [{tool: a, arguments: {a: *a29}}]}}]",
        "&l [*l]",
    ):
        (folder / "ipyagent.yaml").write_text(f"{bomb}\npolicy: {{rules: {rule}}}")
        settings = resolve_layers(*workspace_layers(folder))
        assert settings.config.policy.rules == ()
        assert any("ipyagent.yaml" in notice for notice in settings.notices)
        with pytest.raises(ConfigError, match=r"ipyagent\.yaml"):
            resolve_config(from_file(folder / "ipyagent.yaml"))


def test_what_a_rule_says_is_one_line_that_hides_nothing() -> None:
    rule = Rule(
        effect="deny", tool=("a\u202eb",), reason="stop\n\u200b\x1b[2Jhere", source="x.yaml"
    )
    for text in (rule.explanation, str(rule)):
        assert text == " ".join(visible(text).split())
        assert "\n" not in text
    assert rule.explanation == "x.yaml denies it: stop ⟨U+200B⟩⟨U+001B⟩[2Jhere"


def test_any_argument_has_a_text() -> None:
    given = ["a", 1, 1.0, 1.5, True, None, ["b", 2], {"y": 1, "x": [None]}, Path("p"), {3}]
    assert [argument_text(value) for value in given] == [
        "a", "1", "1", "1.5", "true", "null", '["b",2]', '{"x":[null],"y":1}', '"p"', "[3]",
    ]  # fmt: skip


def test_what_allows_must_fit_every_path_and_what_denies_any(tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    (tmp_path / "private").mkdir()
    (tmp_path / "reports/out").symlink_to("../private")
    allow = Rule(effect="allow", tool="copy", path="reports/**")
    deny = Rule(effect="deny", path="private/**")

    def both(*paths: str) -> tuple[bool, bool]:
        call = Subject("copy", {}, tmp_path, lambda: paths)
        return allow.matches(call), deny.matches(call)

    assert both("reports/a", "reports/b/c") == (True, False)
    assert both("reports/a", "private/a") == (False, True)
    assert both("reports/a", "reports/../private/a") == (False, True)
    assert both("reports/out/a") == (False, True)
    assert both("reports/out/../reports/a") == (True, False)
    assert both(str(tmp_path / "reports/a")) == (True, False)
    assert both("reports/a", "elsewhere") == (False, False)
    assert both("reports/\0") == (False, False)
    assert both() == (False, False)
