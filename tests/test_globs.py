"""Globs: one dialect wherever a pattern can be written, and how long matching takes."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import ipyagent
from growth import LINEAR, growth
from ipyagent.config.rules import MAX_PATTERN, Rule, Subject
from ipyagent.globs import any_text_pattern, literal_text, path_pattern, text_pattern
from ipyagent.kernel.namespace import Namespace
from ipyagent.schema import ToolResult
from ipyagent.services.skills import Skills
from ipyagent.tools.base import Tool, Toolbox
from ipyagent.tools.file_tools import FilePattern, file_tools, search_tools
from ipyagent.tools.namespace_tools import namespace_tools
from ipyagent.tools.path_rules import _matches_any
from ipyagent.tools.workspace import Workspace


def call(tools: list[Tool], name: str, **arguments: object) -> str:
    tool = Toolbox(tools).get(name)
    result = tool(**tool.check_arguments(arguments))
    return result.output if isinstance(result, ToolResult) else str(result)


def list_files_takes(pattern: str, name: str, root: Path) -> bool:
    (root / name).write_text("x")
    return name in call(
        file_tools(Workspace(root), allow_delete=False), "list_files", pattern=pattern
    )


def search_files_takes(pattern: str, name: str, root: Path) -> bool:
    (root / name).write_text("needle")
    tools = search_tools(Workspace(root))
    return name in call(tools, "search_files", query="needle", pattern=pattern)


def subject(tool: str, path: str, root: Path | None = None) -> Subject:
    return Subject(tool, {"path": path}, root, lambda: (path,))


def rule_takes(effect: str) -> Callable[[str, str, Path], bool]:
    def takes(pattern: str, name: str, root: Path) -> bool:
        rule = Rule.model_validate({"effect": effect, "tool": "a", "path": pattern})
        return rule.matches(subject("a", name, root))

    return takes


def rule_names(effect: str) -> Callable[[str, str, Path], bool]:
    def takes(pattern: str, name: str, root: Path) -> bool:
        return Rule.model_validate({"effect": effect, "tool": [pattern]}).names_tool(name)

    return takes


def protected_names_take(pattern: str, name: str, root: Path) -> bool:
    return _matches_any(name, (pattern,))


def skill_takes(pattern: str, name: str, root: Path) -> bool:
    file = root / ".ipyagent/skills/s/SKILL.md"
    file.parent.mkdir(parents=True)
    allowed = json.dumps([pattern])
    file.write_text(f"---\nname: s\ndescription: d\nallowed-tools: {allowed}\n---\nUse it.")
    skills = Skills(Workspace(root), None)
    tool = skills.tool()
    tool.function(**tool.check_arguments({"name": "s"}))
    return skills.refuses(name) is None


def list_variables_takes(pattern: str, name: str, root: Path) -> bool:
    tools = namespace_tools(Namespace({name: 1}))
    return f"- {name}:" in call(tools, "list_variables", pattern=pattern)


USES = {
    "list_files": list_files_takes,
    "search_files": search_files_takes,
    "allowed path": rule_takes("allow"),
    "denied path": rule_takes("deny"),
    "allowed tool": rule_names("allow"),
    "denied tool": rule_names("deny"),
    "protected names": protected_names_take,
    "skill": skill_takes,
    "list_variables": list_variables_takes,
}

DIALECT = [
    ("x[ab]_c", "xa_c", "xc_c"),
    ("x[a-c]", "xb", "xd"),
    ("x[!a-c]", "xd", "xb"),
    ("x[]b]", "xb", "xa"),
    ("x*c", "xabc", "xab"),
    ("x?c", "xbc", "xbbc"),
    ("x**c", "xabc", "xab"),
    ("x{a,b}", "x{a,b}", "xa"),
    ("x[ab", "x[ab", "xa"),
    ("x[!]", "x[!]", "x!"),
    ("x[]", "x[]", "x1"),
    ("x.c", "x.c", "xbc"),
]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(("pattern", "matching", "other"), DIALECT)
def test_a_pattern_means_the_same_wherever_it_is_written(
    use: str, pattern: str, matching: str, other: str, tmp_path: Path
) -> None:
    if use in {"allowed tool", "denied tool", "skill"}:  # their lists may be parted by commas
        pattern, matching = pattern.replace("a,b", "ab"), matching.replace("a,b", "ab")
    for name, expected in ((matching, True), (other, False)):
        root = tmp_path / str(expected)
        root.mkdir()
        assert USES[use](pattern, name, root) is expected


def test_no_other_module_matches_globs_by_itself() -> None:
    root = Path(ipyagent.__file__).parent
    own = [each for each in root.rglob("*.py") if "fnmatch" in each.read_text("utf-8")]
    assert own == []


@given(st.text("ab*?.\n[]!-^\\", max_size=8), st.text("ab.\n[]!-^\\", max_size=10))
def test_a_text_pattern_matches_what_fnmatch_matches(pattern: str, text: str) -> None:
    expected = fnmatch.fnmatchcase(text, pattern)
    assert bool(text_pattern(pattern).match(text)) == expected
    assert bool(any_text_pattern(["b", pattern]).match(text)) == (expected or text == "b")


@pytest.mark.parametrize("pattern", ["a[!b]c", "a[+-9]c", "a[/]c"])
def test_a_class_matches_no_slash(pattern: str) -> None:
    assert not path_pattern(pattern).match("a/c/")


# --- rules: what brackets may not loosen ---------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "denied"),
    [
        ("data[1].csv", ["data[1].csv", "data1.csv", "x/DATA[1].CSV", "data[1].csv/below"]),
        ("[A-Z].csv", ["a.csv", "B.csv", "[a-z].csv"]),
        ("[!A].csv", ["a.csv", "b.csv", "[!a].csv"]),
        ("[Z-a].csv", ["Z.csv", "_.csv", "a.csv"]),
    ],
)
def test_what_denies_matches_with_classes_and_without(path: str, denied: list[str]) -> None:
    rule = Rule.model_validate({"effect": "deny", "path": path})
    for each in denied:
        assert rule.matches(subject("a", each)), each


def test_what_allows_matches_only_with_classes() -> None:
    rule = Rule.model_validate({"effect": "allow", "tool": "a", "path": "data[1].csv"})
    assert rule.matches(subject("a", "data1.csv"))
    for other in ("data[1].csv", "DATA1.csv", "data1.csv/below"):
        assert not rule.matches(subject("a", other)), other


@pytest.mark.parametrize("tool", ["[a-z]*", "[!x]", "*[a-z]?", "?[]x]*"])
def test_a_tool_that_is_allowed_has_to_be_named_outside_of_classes(tool: str) -> None:
    assert literal_text(tool) == ""
    with pytest.raises(ValueError, match="has to name a tool"):
        Rule.model_validate({"effect": "allow", "tool": [tool]})


def test_a_command_is_not_allowed_by_a_pattern_whose_tool_is_spelled_with_a_class() -> None:
    with pytest.raises(ValueError, match="not allowed by a pattern"):
        Rule.model_validate(
            {"effect": "allow", "tool": ["run_[st]hell"], "arguments": {"command": "ls *"}}
        )


@pytest.mark.parametrize("effect", ["allow", "deny"])
def test_brackets_in_an_argument_mean_themselves(effect: str) -> None:
    rule = Rule.model_validate(
        {"effect": effect, "tool": "a", "arguments": {"columns": '["a",*]', "name": "df[0]"}}
    )

    def takes(columns: list[str], name: str) -> bool:
        return rule.matches(Subject("a", {"columns": columns, "name": name}, None, tuple))

    assert takes(["a", "b"], "df[0]")
    assert not takes(["a", "b"], "df0")
    assert not takes(["b", "b"], "df[0]")


# --- paths ---------------------------------------------------------------------------------------

PARTS = st.sampled_from(["a", "b", "*", "a*", "?b", "**", "a*b*"])


@given(st.lists(PARTS, min_size=1, max_size=5), st.lists(st.text("ab", min_size=1, max_size=3)))
def test_a_file_pattern_matches_what_a_path_pattern_matches(
    pattern: list[str], path: list[str]
) -> None:
    text, glob = "/".join(path) or ".", "/".join(pattern)
    assert bool(path_pattern(glob, below=False).match(f"{text}/")) == FilePattern(glob).matches(
        text
    )


@pytest.mark.parametrize(
    ("pattern", "path", "fits", "fits_below"),
    [
        ("secrets", "secrets", True, True),
        ("secrets", "secrets/a/b", False, True),
        ("secrets", "x/secrets", True, True),
        ("./secrets", "x/secrets", False, False),
        ("secrets/", "secrets", True, True),
        ("secrets/", "secrets/a", True, True),
        ("secrets/", "x/secrets/a", False, False),
        ("secrets/*", "secrets/a", True, True),
        ("secrets/*", "secrets/a/b", False, True),
        ("secrets/*", "secrets", False, False),
        ("*.csv", "data/a.csv", True, True),
        ("*.csv", "a.csv.bak", False, False),
        ("data/*.csv", "data/x/a.csv", False, False),
        ("data/**/*.csv", "data/a.csv", True, True),
        ("data/**/*.csv", "data/x/y/a.csv", True, True),
        ("**", ".", True, True),
        ("**", "/etc/passwd", False, True),
        ("passwd", "/etc/passwd", False, True),
        ("etc/passwd", "/etc/passwd", False, False),
        ("*/etc/passwd", "/etc/passwd", False, False),
        ("/etc/**", "/etc/passwd", True, True),
        ("/etc/**", "etc/passwd", False, False),
        ("a\nb", "a\nb", True, True),
    ],
)
def test_what_allows_fits_less_than_what_forbids(
    pattern: str, path: str, fits: bool, fits_below: bool
) -> None:
    assert bool(path_pattern(pattern, below=False).match(f"{path}/")) is fits
    assert bool(path_pattern(pattern, below=True).match(f"{path}/")) is fits_below


def test_no_pattern_takes_long() -> None:
    for pattern in ("*a" * (MAX_PATTERN // 2) + "b", "?*" * (MAX_PATTERN // 2) + "b"):
        assert not text_pattern(pattern).match("a" * 20_000)
    deep = "/".join(["**", "a*a*"] * 40) + "/b"
    for below in (True, False):
        assert not path_pattern(deep, below=below).match("aa/" * 1_300)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["[{}", "{}[]", "[]{}", "{}]", "[!{}]"])
@pytest.mark.parametrize("unit", ["[", "[!", "[]", "]["])
def test_a_long_pattern_is_read_in_proportion_to_its_length(shape: str, unit: str) -> None:
    def read(size: int) -> None:
        literal_text(shape.format(unit * size))

    assert growth(read, 20_000) < LINEAR
