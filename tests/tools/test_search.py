"""search_files: linear expressions, private files left out, an answer in time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ipyagent.errors import AgentError, InvalidArgumentsError, PathTraversalError
from ipyagent.tools import file_tools
from ipyagent.tools.base import Where
from ipyagent.tools.file_tools import FilePattern, search_tools
from ipyagent.tools.path_rules import WalkBudget
from ipyagent.tools.workspace import Workspace


@pytest.fixture
def find(tmp_path: Path) -> Callable[..., str]:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.py").write_text("import os\nx = os.path\n")
    (tmp_path / "sub" / "b.csv").write_bytes(b"name;os\r\nK\xf6ln;1\r\n")
    return search_tools(Workspace(tmp_path))[0].function


def test_matches_come_with_path_and_line(find: Callable[..., str]) -> None:
    assert find("os") == "a.py:1: import os\na.py:2: x = os.path\nsub/b.csv:1: name;os"
    assert find("os", pattern="*.csv") == "sub/b.csv:1: name;os"
    assert find("os", path="sub") == "sub/b.csv:1: name;os"
    assert find("os", path="a.py") == "a.py:1: import os\na.py:2: x = os.path"
    assert find(r"^x\s=.*path$", regex=True) == "a.py:2: x = os.path"
    assert find(r"os$", regex=True, pattern="sub/*") == "sub/b.csv:1: name;os"
    assert find("o.") == "(no matches)"
    assert find("ln;1") == "sub/b.csv:2: Köln;1"


def test_the_tool_may_run_beside_others(tmp_path: Path) -> None:
    (only,) = search_tools(Workspace(tmp_path))
    assert (only.name, only.where, only.sensitive, only.parallel) == (
        "search_files",
        Where.THREAD,
        False,
        True,
    )


@pytest.mark.parametrize(
    "query", ["(", "(?=x)", r"(a)\1", "(a{1000}){1000}", "[z-a]", "\ud800", ""]
)
def test_what_cannot_be_searched_for_is_explained(find: Callable[..., str], query: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="query"):
        find(query, regex=True)


EVIL = [
    "(a+)+$",
    "([a-zA-Z]+)*$",
    "(a|aa)+$",
    "(a|a?)+$",
    "(.*a){20}$",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
]
EVIL += ["(a*)*$", "(a*)*b$", "((a*)*)*$", "(x+x+)+y", "^(a?){25}a{25}$", "(a+a+)+b", "(([a]+)+)+$"]
EVIL += [
    r"(\w+\s*)+:$",
    r"^(\w*)*$!",
    "(aa|a)*c",
    "(?:a+){10}b",
    "(a|b|ab)*c",
    r"(\d+)+x",
    "a*a*a*a*a*a*b",
]


@pytest.mark.parametrize("pattern", EVIL)
def test_no_expression_takes_exponential_time(
    find: Callable[..., str], tmp_path: Path, pattern: str
) -> None:
    (tmp_path / "evil.txt").write_text("a" * 5_000 + "!\n" + "x" * 5_000 + "\n" + "1" * 5_000)
    find(pattern, regex=True)


def test_binary_large_and_private_files_are_counted_not_searched(
    find: Callable[..., str], tmp_path: Path
) -> None:
    for name in (".env", "x.pem", ".git/config", ".ipyagent/state.db", "node_modules/x.js"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("needle")
    (tmp_path / "binary").write_bytes(b"\0needle")
    (tmp_path / "large.txt").write_bytes(b"needle\n" * 1_000_000)
    (tmp_path / "plain.txt").write_text("needle")
    answer = find("needle")
    assert answer == "plain.txt:1: needle\n(not searched: 4 binary, large, linked or private files)"
    with pytest.raises(AgentError):
        find("needle", path=".ipyagent")


def test_many_matches_are_capped_and_long_lines_shortened(
    find: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "many.txt").write_text("needle\n" * 10_000)
    lines = find("needle").splitlines()
    assert len(lines) == file_tools.MAX_MATCHES + 1
    assert lines[-1] == "… more than 200 matches; narrow query, path or pattern"
    (tmp_path / "long.txt").write_text("x" * 1_000_000 + "nadel" + "y" * 1_000_000)
    (tmp_path / "high.txt").write_text("\n" * 100_000 + "nagel")
    assert find("nagel") == "high.txt:100001: nagel"
    answer = find("nadel")
    assert "xnadely" in answer
    assert len(answer) < 400


def test_a_search_that_takes_too_long_stops_and_says_so(
    find: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_tools, "WalkBudget", lambda: WalkBudget(entries=1))
    answer = find("os")
    assert answer.endswith("… stopped early, there is too much to search; narrow path or pattern")


@pytest.mark.spec("D7")
@pytest.mark.parametrize("pattern", ["../*", "/etc/*", "a/../../*", "..", "~/x"])
def test_a_pattern_that_points_elsewhere_is_refused(pattern: str) -> None:
    with pytest.raises(PathTraversalError, match="escapes the workspace"):
        FilePattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "fitting", "other"),
    [
        ("*.py", ["a.py", "x/y/a.py"], ["a.pyc", "py"]),
        ("data/*.csv", ["data/a.csv"], ["a.csv", "x/data/a.csv", "data/x/a.csv"]),
        ("**/*.py", ["a.py", "x/y/a.py"], ["a.csv"]),
        ("data/**", ["data/a", "data/a/b"], ["a", "x/data/a"]),
        ("**/x/**/y", ["x/y", "a/x/b/c/y"], ["y", "x", "x/yy"]),
        ("[ab]?.txt", ["a1.txt", "x/b2.txt"], ["c1.txt", "a.txt"]),
        ("*", ["a", "x/y"], []),
    ],
)
def test_globs_mean_what_people_expect(pattern: str, fitting: list[str], other: list[str]) -> None:
    glob = FilePattern(pattern)
    assert all(glob.matches(path) for path in fitting)
    assert not any(glob.matches(path) for path in other)


def test_a_glob_of_many_stars_takes_no_exponential_time() -> None:
    path = "/".join(["a" * 100] * 40)
    for pattern in ("**/" * 60 + "b", "a*" * 90 + "b", "**/*a*/" * 20 + "b"):
        assert not FilePattern(pattern).matches(path)
