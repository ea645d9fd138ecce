"""Code is parsed, also while other code is."""

from __future__ import annotations

import ast
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from ipyagent.syntax import parse

CODE = "x = f(a[1], b.c(d + 2 * (e - 1)))\n" * 20


@contextmanager
def another_parser(times: int) -> Iterator[None]:
    """Parse other code so many times while code is parsed, as another thread would.

    A collection of garbage may let one run. It begins within the parser, which makes many objects.
    """
    left = times

    def interrupt(phase: str, _: dict[str, int]) -> None:
        nonlocal left
        if phase == "stop" and left:
            left -= 1
            ast.parse("y")

    before = gc.get_threshold()
    gc.collect()
    gc.callbacks.append(interrupt)
    gc.set_threshold(50, 100_000, 100_000)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(interrupt)
    assert left == 0


@pytest.mark.skipif(sys.version_info >= (3, 11, 8), reason="CPython has mended it")
@pytest.mark.parametrize("parser", [ast.parse, lambda code: compile(code, "", "exec", 1024)])
def test_the_parser_of_old_pythons_fails_beside_another(parser: Callable[[str], object]) -> None:
    with another_parser(times=1), pytest.raises(SystemError, match="recursion depth mismatch"):
        parser(CODE)


@pytest.mark.parametrize("times", [1, 3])
def test_code_is_parsed_beside_other_code(times: int) -> None:
    with another_parser(times):
        tree = parse(CODE)
    assert ast.dump(tree) == ast.dump(ast.parse(CODE))


def test_what_is_no_python_is_an_error_as_ever() -> None:
    with pytest.raises(SyntaxError):
        parse("%time x")
    assert parse("[each async for each in await x]").body
