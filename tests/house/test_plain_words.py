"""Names and docstrings speak plainly: verbs for functions, and sentences that need no solving."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from repository import parse_sources, read_front_end, read_sources

RIDDLES = {
    *("told", "said", "shown", "found", "held", "kept", "drawn", "heard", "left", "gone", "known"),
    *("given", "taken", "seen", "made", "done", "begun", "known", "written", "chosen", "grown"),
    *("settle", "lay", "behold"),
}
"""Words that say nothing of what a function does or returns."""

CALLS = {"say", "tell", "hear", "look", "shows"}
"""Words that the front end once had for `send` and `receive`; a session has a method `say`."""

NOT_PARTICIPLES = {"embed", "feed", "need", "proceed", "seed", "shed"}

QUESTION = r"(?:What|Whether|Those|That|Where|Who|Whose|How)\b"
DOCSTRING = re.compile(QUESTION)
COMMENT = re.compile(rf"(?:/\*\*?\s*(?:\*\s*)?|(?<!\S)// ?)(?:{QUESTION}|Which\b).*")
"""A comment of TypeScript that begins with a question word."""

FUNCTION = re.compile(
    r"\bfunction (\w+)"  # a function,
    r"|^  (?:(?:private|protected|static|async) )*(\w+)(?:<.*>)?\("  # a method,
    r"|\b(?:const|private) (\w+) = (?:async )?\(.*=>",  # or a value that is one
    re.MULTILINE,
)

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
        word.isalpha() and word.islower() and word.endswith("ed") and word not in NOT_PARTICIPLES
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


def find_comments(path: str, text: str) -> Iterator[str]:
    """Yield a file's comments that begin with a question word, with their lines."""
    for match in COMMENT.finditer(text):
        yield f"{path}:{text.count(chr(10), 0, match.start()) + 1} {match[0]}"


def test_a_question_in_typescript_is_recognized() -> None:
    text = (
        "/** What is drawn. */\n/**\n * Whether. */\n  // How.\n/** Draw what is. */\n'http://Who'"
    )
    assert [each.split(" ")[0] for each in find_comments("a.ts", text)] == [
        "a.ts:1",
        "a.ts:2",
        "a.ts:4",
    ]
    names = "function told() {\n  private tell(text) {\nconst shown = (a): void => a;"
    assert [next(filter(None, each)) for each in FUNCTION.findall(names)] == [
        *("told", "tell", "shown"),
    ]


def test_no_comment_of_the_front_end_begins_with_a_question_word() -> None:
    assert [each for item in read_front_end().items() for each in find_comments(*item)] == []


def test_no_function_of_the_front_end_is_a_riddle() -> None:
    riddles = [
        f"{path} {name}"
        for path, text in read_front_end().items()
        if not path.startswith("__tests__/")
        for names in FUNCTION.findall(text)
        if is_riddle(name := next(filter(None, names))) or name in CALLS
    ]
    assert riddles == []


def test_who_uses_ipyagent_is_called_the_user() -> None:
    lines = [
        f"{path}:{number} {line.strip()}"
        for path, text in [*read_sources().items(), *read_front_end().items()]
        for number, line in enumerate(text.splitlines(), 1)
        if PERSON.search(line)
    ]
    assert lines == []
