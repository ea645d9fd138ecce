"""The requirements that tests are marked with are those of `requirements.md`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
TABLE = HERE / "requirements.md"
ROW = re.compile(r"^\| ([A-Z]\d+) \| (.+) \|$", re.MULTILINE)
UNPROVEN = "## Not proven by one test"


def read_marks(source: str) -> Iterator[object]:
    """Yield the ids in the `spec` marks of Python source, or None for one that is computed."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.spec"):
            for argument in node.args:
                yield argument.value if isinstance(argument, ast.Constant) else None


@cache
def read_all_marks() -> frozenset[object]:
    """Return every id that a test is marked with."""
    paths = HERE.rglob("*.py")
    return frozenset(name for path in paths for name in read_marks(path.read_text("utf-8")))


def split_table() -> tuple[list[str], list[str]]:
    """Return the ids that tests prove, and those that none proves by itself."""
    proven, _, unproven = TABLE.read_text("utf-8").partition(UNPROVEN)
    return [m[1] for m in ROW.finditer(proven)], [m[1] for m in ROW.finditer(unproven)]


def test_marks_are_read_from_source_in_any_place() -> None:
    source = 'pytestmark = [pytest.mark.spec("A1")]\n@pytest.mark.spec("B2", name)\ndef f(): ...\n'
    assert set(read_marks(source)) == {"A1", "B2", None}


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
    assert rows
    assert all(
        len([cell for cell in row.strip("|").split("|") if cell.strip()]) == 3 for row in rows
    )
