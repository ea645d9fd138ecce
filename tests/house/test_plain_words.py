"""Names and docstrings speak plainly: verbs for functions, and sentences that need no solving."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from repository import parse_sources, read_sources

RIDDLES = {
    *("told", "said", "shown", "found", "held", "kept", "drawn", "heard", "left", "gone", "known"),
    *("given", "taken", "seen", "made", "done", "begun", "known", "written", "chosen", "grown"),
    *("settle", "lay", "behold"),
}
"""Words that say nothing of what a function does or returns."""

NOT_PARTICIPLES = {"embed", "feed", "need", "proceed", "seed", "shed"}

DOCSTRING = re.compile(r"(?:What|Whether|Those|That of|Where|Who|Whose|How)\b")

PERSON = re.compile(r"\bpersons?\b", re.IGNORECASE)


def definitions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def is_riddle(name: str) -> bool:
    """Return whether a function's name is a bare participle, or a word that says nothing."""
    if name.startswith("__"):
        return False  # demanded by Python
    word = name.strip("_")
    return word in RIDDLES or (
        word.isalpha() and word.endswith("ed") and word not in NOT_PARTICIPLES
    )


def test_a_riddle_is_recognized() -> None:
    assert [
        name for name in ("told", "_listed", "mask_event", "feed", "is_named") if is_riddle(name)
    ] == [
        "told",
        "_listed",
    ]
    assert DOCSTRING.match("What is left of it.")
    assert not DOCSTRING.match("Return what is left of it.")


def test_no_function_is_named_by_a_bare_participle() -> None:
    riddles = [
        f"{path}:{node.lineno} {node.name}"
        for path, tree in parse_sources().items()
        for node in definitions(tree)
        if is_riddle(node.name)
    ]
    assert riddles == []


def test_no_docstring_begins_with_a_question_word() -> None:
    nodes = [(path, node) for path, tree in parse_sources().items() for node in ast.walk(tree)]
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    questions = [
        f"{path}:{getattr(node, 'lineno', 1)} {text}"
        for path, node in nodes
        if isinstance(node, documented) and DOCSTRING.match(text := ast.get_docstring(node) or "")
    ]
    assert questions == []


def test_who_uses_ipyagent_is_called_the_user() -> None:
    lines = [
        f"{path}:{number} {line.strip()}"
        for path, text in read_sources().items()
        for number, line in enumerate(text.splitlines(), 1)
        if PERSON.search(line)
    ]
    assert lines == []
