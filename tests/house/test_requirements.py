"""The requirements that tests are marked with are those of `requirements.md`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from repository import ROOT

TESTS = ROOT / "tests"
TABLE = TESTS / "requirements.md"
ROW = re.compile(r"^\| ([A-Z]\d+) \| (.+) \|$", re.MULTILINE)
UNPROVEN = "## Not proven by one test"


def is_mark(node: ast.expr, name: str) -> bool:
    """Return whether an expression is `pytest.mark.NAME`."""
    return isinstance(node, ast.Attribute) and node.attr == name


def find_marks(node: ast.AST) -> list[ast.expr]:
    """Return the marks of a test, a class or a module, and of nothing in it."""
    marks = list(getattr(node, "decorator_list", []))
    for child in getattr(node, "body", []):
        if isinstance(child, ast.Assign) and ast.unparse(child.targets[0]) == "pytestmark":
            is_list = isinstance(child.value, ast.List | ast.Tuple)
            marks += child.value.elts if is_list else [child.value]
    return marks


def read_marks(node: ast.AST) -> Iterator[object]:
    """Yield the ids in the `spec` marks of Python source, or None for one that is computed."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and is_mark(each.func, "spec"):
            for argument in each.args:
                yield argument.value if isinstance(argument, ast.Constant) else None


def read_marks_in_gate(node: ast.AST, inherited: frozenset[object] = frozenset()) -> set[object]:
    """Return the ids of the tests that are not marked as slow, nor their class or module."""
    marks = find_marks(node)
    if any(is_mark(mark, "slow") for mark in marks):
        return set()
    known = inherited.union(*map(read_marks, marks))
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return set(known) if node.name.startswith("test_") else set()
    children = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)]
    return set().union(*(read_marks_in_gate(each, known) for each in children))


@cache
def parse_all() -> tuple[ast.Module, ...]:
    return tuple(ast.parse(path.read_text("utf-8")) for path in TESTS.rglob("*.py"))


def read_all_marks() -> set[object]:
    """Return every id that a test is marked with."""
    return {name for module in parse_all() for name in read_marks(module)}


def split_table() -> tuple[list[str], list[str]]:
    """Return the ids that tests prove, and those that none proves by itself."""
    proven, _, unproven = TABLE.read_text("utf-8").partition(UNPROVEN)
    return [m[1] for m in ROW.finditer(proven)], [m[1] for m in ROW.finditer(unproven)]


def test_marks_are_read_from_source_in_any_place() -> None:
    source = 'pytestmark = [pytest.mark.spec("A1")]\n@pytest.mark.spec("B2", name)\ndef f(): ...\n'
    assert set(read_marks(ast.parse(source))) == {"A1", "B2", None}


def test_marks_of_slow_tests_classes_and_modules_do_not_count_for_the_gate() -> None:
    def read(source: str) -> set[object]:
        return read_marks_in_gate(ast.parse(source))

    spec, slow = '@pytest.mark.spec("{}")\n', "@pytest.mark.slow\n"
    test = "def test_{}(): ...\n"
    marked = spec.format("A1") + test.format("a")
    assert read(marked + slow + spec.format("B2") + test.format("b")) == {"A1"}
    assert read(marked + spec.format("B2") + slow + "async " + test.format("b")) == {"A1"}
    assert read(f"{slow}class TestA:\n    {marked.replace(chr(10), chr(10) + '    ')}\n") == set()
    assert read("pytestmark = [pytest.mark.kernel, pytest.mark.slow]\n" + marked) == set()
    module = 'pytestmark = pytest.mark.spec("C3")\n'
    assert read(module + slow + test.format("a")) == set()
    assert read(module + test.format("a")) == {"C3"}


def test_every_row_has_a_proof_in_the_gate() -> None:
    proven, _ = split_table()
    in_gate = set().union(*map(read_marks_in_gate, parse_all()))
    assert [name for name in proven if name not in in_gate] == []


def test_every_mark_has_a_row() -> None:
    proven, _ = split_table()
    assert read_all_marks() - set(proven) == set()


def test_every_row_is_marked_or_named_as_not_proven_by_one_test() -> None:
    proven, unproven = split_table()
    marks = read_all_marks()
    assert len(proven) > 200
    assert set(proven) - marks == set()
    assert set(unproven) & marks == set()


def test_no_id_is_used_twice_and_every_row_says_something_of_its_own() -> None:
    text = TABLE.read_text("utf-8")
    ids = [name for part in split_table() for name in part]
    lines = [match[2] for match in ROW.finditer(text)]
    assert len(ids) == len(set(ids))
    assert len(lines) == len(set(lines))


def test_rows_are_under_their_letter_in_order() -> None:
    for section in TABLE.read_text("utf-8").partition(UNPROVEN)[0].split("\n## ")[1:]:
        numbers = [int(name[1:]) for name in re.findall(r"^\| ([A-Z]\d+) ", section, re.MULTILINE)]
        assert {match[1][0] for match in ROW.finditer(section)} == {section[0]}
        assert numbers == sorted(numbers)


def test_a_requirement_that_no_test_proves_gives_its_reason() -> None:
    rows = TABLE.read_text("utf-8").partition(UNPROVEN)[2].strip().splitlines()[2:]
    assert all(
        len([cell for cell in row.strip("|").split("|") if cell.strip()]) == 3 for row in rows
    )
