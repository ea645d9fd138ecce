"""Each file costs its reader a name and an import: a small one has a reason, and none is large."""

import ast
import tokenize
from collections.abc import Iterator
from functools import cache
from io import StringIO

import pytest

from repository import parse_sources, read_sources

SMALL = 40
LARGE = 400

REASONS = {
    "digests.py": "the results are stored, so they must not change; eight rooms use it",
    "number_dates.py": "numbers.py would be large with it",
    "syntax.py": "it works around a fault of CPython, for six rooms",
    "schema/tables.py": "results.py would be large with it",
    "store/answers.py": "a file of its own, which needs nothing of the journal",
}
"""Files under SMALL lines of code. What a package exports, its `__init__.py`, needs no reason."""

NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstring_lines(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            yield from range(first.lineno, (first.end_lineno or first.lineno) + 1)


def count_code_lines(text: str, tree: ast.AST) -> int:
    """Return the lines that are not blank, of a comment or of a docstring."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - set(docstring_lines(tree)))


@cache
def code_lines() -> dict[str, int]:
    trees = parse_sources()
    return {path: count_code_lines(text, trees[path]) for path, text in read_sources().items()}


def small_files() -> set[str]:
    files = {path for path, count in code_lines().items() if count < SMALL}
    return {path for path in files if not path.endswith("__init__.py")}


def test_each_small_file_has_a_reason() -> None:
    assert small_files() - set(REASONS) == set(), "move it to where it is used, or add a reason"


def test_no_reason_outlives_the_small_file_that_it_is_for() -> None:
    assert set(REASONS) - small_files() == set()


def test_no_file_is_large() -> None:
    assert {path: count for path, count in code_lines().items() if count > LARGE} == {}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('"""What it does.\n\nAt length."""\n\nimport re\n', 1),
        ("# a comment\nx = 1  # another\n", 1),
        ("def f() -> None:\n    '''What it does.'''\n\n    g(\n        1,\n    )\n", 4),
        ('x = """\ntext\n"""\n', 3),
    ],
)
def test_lines_of_code_are_counted(text: str, count: int) -> None:
    assert count_code_lines(text, ast.parse(text)) == count
