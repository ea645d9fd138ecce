"""Whatever comes out of a tool is a result that a model can read."""

from __future__ import annotations

import asyncio
import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import BaseModel

from ipyagent.errors import AgentError, PathTraversalError
from ipyagent.schema import ImageContent, TextContent, ToolResult, TruncationConfig
from ipyagent.tools.result_conversion import as_result, error_result, truncate_result

PICTURE = ImageContent(data="aGk=")


@dataclass
class Record:
    n: int


class Model(BaseModel):
    n: int


class Mute:
    def __repr__(self) -> str:
        raise RuntimeError("never asked")


RING: list[Any] = []
RING.append(RING)


@pytest.mark.spec("A36")
@pytest.mark.parametrize(
    ("value", "output"),
    [
        (None, "Done."),
        ("text", "text"),
        ("", ""),
        (True, "True"),
        (3, "3"),
        (float("nan"), "nan"),
        (np.float64(0.5), "0.5"),
        ({"a": [1, {"b": None}]}, '{"a":[1,{"b":null}]}'),
        (["é", 1.5], '["é",1.5]'),
        ((), "[]"),
        ({"on": datetime.date(2026, 1, 2)}, '{"on":"2026-01-02"}'),
        (Record(1), '{"n":1}'),
        ([Model(n=1)], '[{"n":1}]'),
        (b"\xff", "result: bytes = b'\\xff'"),
        ({1, 2}, "result: set, 2 items (int)\n  1\n  2"),
        (RING, "result: list, 1 item (list)\n  [[[…]]]"),
        ({"a": Mute()}, "result: dict, 1 item\n  'a': <Mute>"),
        (Mute(), "result: Mute (test_tool_results)"),
        (ValueError("no"), "result: ValueError = ValueError('no')"),
    ],
)
def test_any_return_value_becomes_a_result(value: object, output: str) -> None:
    result = as_result(value)
    assert (result.success, result.output, result.error) == (True, output, None)
    assert result.value is value


@pytest.mark.spec("A36")
def test_a_large_table_is_described_and_a_long_record_told_in_full() -> None:
    table = pd.DataFrame({"n": range(100_000)})
    assert as_result(table).output.startswith("result: DataFrame, 100,000 rows")
    rows = [{"n": n, "text": "x" * 100} for n in range(100)]
    assert as_result({"rows": rows}).output.count("x" * 100) == 100
    assert as_result([0] * 100_000).output.count("0") == 100_000


@pytest.mark.spec("A36")
def test_an_iterator_is_not_consumed() -> None:
    numbers = iter([1, 2])
    assert as_result(numbers).value is numbers
    assert list(numbers) == [1, 2]


@pytest.mark.spec("A36", "M18")
def test_content_blocks_are_wrapped() -> None:
    text = TextContent(text="seen")
    assert as_result(text).output == "seen"
    assert as_result(PICTURE).images == (PICTURE,)
    both = as_result([text, PICTURE, text])
    assert (both.output, both.images) == ("seen\nseen", (PICTURE,))
    assert both.to_content("1").content[1:] == (PICTURE,)
    assert as_result([text, 1]).images == ()


@pytest.mark.spec("A36", "M18", "M21")
def test_a_result_is_left_as_it_is() -> None:
    for given in (ToolResult(output="a"), ToolResult(content="b", success=True, error=None)):
        assert as_result(given) is given


class ShyError(Exception):
    def __str__(self) -> str:
        raise SystemExit("not even its text")


@pytest.mark.spec("A36", "A37", "A38", "D10", "D11", "D26", "M21")
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("bad"), "ValueError: bad"),
        (KeyError("k"), "KeyError: 'k'"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (GeneratorExit(), "GeneratorExit"),
        (MemoryError(), "MemoryError"),
        (RecursionError("deep"), "RecursionError: deep"),
        (asyncio.CancelledError(), "CancelledError"),
        (ExceptionGroup("two", [ValueError("a")]), "ExceptionGroup: two (1 sub-exception)"),
        (ShyError(), "ShyError"),
        (PathTraversalError("'../x' escapes the workspace"), "'../x' escapes the workspace"),
        (AgentError(), "AgentError"),
        (AgentError("\x1b[2J"), "AgentError"),
        (ValueError("\x1b[31mred"), "ValueError: red"),
    ],
)
def test_whatever_is_raised_is_told_as_output_and_error(error: BaseException, text: str) -> None:
    result = error_result(error)
    assert (result.success, result.output, result.error) == (False, text, text)
    assert result.to_content("1").is_error


@pytest.mark.spec("D26", "M21")
def test_what_a_text_says_does_not_make_it_an_error() -> None:
    content = as_result("Error: this is the first line of the log").to_content("1")
    assert not content.is_error
    assert ToolResult(success=False, output="All is well.").to_content("1").is_error


# --- what the model gets to read -----------------------------------------------------------------


@pytest.mark.spec("N21", "N22", "A37")
def test_a_long_result_is_cut_and_keeps_the_whole(tmp_path: Path) -> None:
    text = "x" * 30_001
    raw = ToolResult(output=text, value=text)
    result = truncate_result(raw, tool="long", save=lambda _: "full.txt")
    assert (result.truncated.tool_name, result.truncated.path) == ("long", "full.txt")
    assert len(result.output) <= 30_000
    assert (result.full_output, result.value) == (text, text)
    assert "full_output" not in result.to_dict()
    assert truncate_result(ToolResult(output=text[:-1]), tool="t", save=None).truncated is None
    off = TruncationConfig(enabled=False)
    assert truncate_result(raw, tool="t", save=None, limits=off).output == text


@pytest.mark.spec("N21", "A38")
def test_a_long_error_is_cut_more_narrowly_than_its_output() -> None:
    result = truncate_result(error_result(ValueError("x" * 20_000)), tool="t", save=None)
    assert len(result.output) > 20_000
    assert len(result.error or "") <= 2_000


@pytest.mark.spec("H17", "D5")
def test_terminal_escapes_are_only_left_in_the_value() -> None:
    hostile = "\x1b]0;evil\x07\x1b[31mred\x1b[0m \x9b31m\x1b(Bplain"
    result = as_result(hostile)
    assert (result.output, result.full_output) == ("red plain", "red plain")
    assert result.value == hostile
    assert error_result(ValueError(hostile)).error == "ValueError: red plain"
    assert as_result({"a": hostile}).output.isprintable()
