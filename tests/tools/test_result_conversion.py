"""Results: what tools return and raise, and how long ones are cut."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

from ipyagent.errors import AgentError, PathTraversalError, PathValidationError
from ipyagent.schema import ImageContent, TextContent, ToolResult, TruncationConfig
from ipyagent.tools.file_tools import file_tools
from ipyagent.tools.result_conversion import (
    OutputStore,
    as_result,
    error_result,
    truncate,
    truncate_result,
)
from ipyagent.tools.workspace import MAX_BYTES, Workspace

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
        ({"on": date(2026, 1, 2)}, '{"on":"2026-01-02"}'),
        (Record(1), '{"n":1}'),
        ([Model(n=1)], '[{"n":1}]'),
        (b"\xff", "result: bytes = b'\\xff'"),
        ({1, 2}, "result: set, 2 items (int)\n  1\n  2"),
        (RING, "result: list, 1 item (list)\n  [[[…]]]"),
        ({"a": Mute()}, "result: dict, 1 item\n  'a': <Mute>"),
        (Mute(), "result: Mute (test_result_conversion)"),
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
    for each in (ToolResult(output="a"), ToolResult(content="b", success=True, error=None)):
        assert as_result(each) is each


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


@pytest.mark.spec("N21", "D25")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "x" * 30_000,
        "l\n" * 1_000,  # the last line break ends the thousandth line, it begins no other
        "l\n" * 999 + "l",
        ("l" * 29 + "\n") * 1_000,
    ],
)
def test_what_fits_exactly_is_left_alone(text: str) -> None:
    assert truncate(text, tool="t", save=None) == (text, None)


@pytest.mark.spec("N21", "D25")
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("x" * 30_001, 1),
        ("l\n" * 1_001, 1_001),
        ("l\n" * 1_000 + "l", 1_001),
        ("\n" * 1_001, 1_001),
    ],
)
def test_one_more_is_cut_and_stays_within_the_limits(text: str, lines: int) -> None:
    output, cut = truncate(text, tool="t", save=lambda _: "full.txt")
    assert (cut.original_chars, cut.original_lines, cut.path) == (len(text), lines, "full.txt")
    assert len(output) <= 30_000
    assert len(output.splitlines()) <= 1_000


@pytest.mark.spec("N21", "D25")
@given(
    text=st.text(st.sampled_from("ab \n\r\v\f\x1c\x85\u2028é🙂"), min_size=0, max_size=3_000),
    max_chars=st.integers(1, 2_000),
    max_lines=st.integers(1, 200),
    saved=st.booleans(),
)
def test_body_and_footer_together_never_exceed_the_limits(
    text: str, max_chars: int, max_lines: int, saved: bool
) -> None:
    save = (lambda _: ".ipyagent/outputs/0123456789ab.txt") if saved else None
    limits = TruncationConfig(max_chars=max_chars, max_lines=max_lines)
    output, cut = truncate(text, tool="t", save=save, limits=limits)
    assert len(output) <= max_chars
    assert len(output.splitlines()) <= max_lines
    assert (cut is None) == (output == text)
    assert (cut is None) == (len(text) <= max_chars and len(text.splitlines()) <= max_lines)


@pytest.mark.spec("N21")
def test_narrow_limits_leave_room_for_the_text_and_for_where_all_of_it_is() -> None:
    path = ".ipyagent/outputs/0123456789ab.txt"
    for max_chars in (100, 200, 400):
        limits = TruncationConfig(max_chars=max_chars)
        output, _ = truncate("x" * 1_000, tool="t", save=lambda _: path, limits=limits)
        assert max_chars - 5 < len(output) <= max_chars
        assert output.startswith("xxxxx")
        assert f"read_file {path} has all]" in output


def test_the_beginning_and_the_end_are_kept_and_the_footer_says_what_is_missing() -> None:
    text = "".join(f"line {number}\n" for number in range(5_000))
    output, _ = truncate(text, tool="t", save=lambda _: "full.txt")
    body, footer = output.rsplit("\n", 1)
    head, tail = body.split("\n…\n")
    assert text.startswith(head)
    assert text.rstrip().endswith(tail)
    assert len(head.splitlines()) + len(tail.splitlines()) == 998
    missing = len(text) - len(head) - len(tail)
    assert f"{missing:,} of {len(text):,} characters (5,000 lines)" in footer
    assert "read_file full.txt" in footer


@pytest.mark.spec("N22", "A40")
def test_the_full_text_can_be_read_by_read_file_and_nothing_beside_it(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    text = "".join(f"line {number}\n" for number in range(5_000))
    _, cut = truncate(text, tool="long", save=OutputStore(workspace).save)
    assert cut.path.startswith(".ipyagent/outputs/")
    assert (cut.tool_name, cut.original_chars, cut.original_lines) == ("long", len(text), 5_000)
    assert abs(datetime.now(UTC) - cut.created_at) < timedelta(minutes=5)
    assert (tmp_path / cut.path).read_text() == text
    assert (tmp_path / ".ipyagent" / ".gitignore").read_text() == "*\n"

    read_file = {tool.name: tool for tool in file_tools(workspace, allow_delete=False)}["read_file"]
    assert "  4000\tline 3999" in read_file(cut.path, offset=3_900)
    (tmp_path / ".ipyagent" / "state.db").write_text("private")
    for path in (".ipyagent/state.db", ".ipyagent/outputs/../state.db", ".ipyagent/.gitignore"):
        with pytest.raises(PathValidationError, match="private state"):
            read_file(path)


def test_equal_outputs_share_a_file_so_that_a_replay_gives_the_same_text(tmp_path: Path) -> None:
    store = OutputStore(Workspace(tmp_path))
    assert store.save("one") == store.save("one") != store.save("two")
    assert len(list((tmp_path / ".ipyagent" / "outputs").iterdir())) == 2
    store.save("\ud800")  # what no encoding can say is spelled out


def test_a_text_longer_than_any_file_is_cut_between_two_characters(tmp_path: Path) -> None:
    text = "a" + "é" * (MAX_BYTES // 2)
    with pytest.raises(UnicodeDecodeError):
        text.encode()[:MAX_BYTES].decode()
    saved = tmp_path / OutputStore(Workspace(tmp_path)).save(text)
    assert saved.stat().st_size == MAX_BYTES - 1
    assert text.startswith(saved.read_text())


def test_a_root_that_cannot_be_written_costs_the_file_and_not_the_output(tmp_path: Path) -> None:
    # A file where the folder should be stops root, too, whom permissions do not.
    (tmp_path / ".ipyagent").write_text("in the way")
    store = OutputStore(Workspace(tmp_path))
    with pytest.raises(PathValidationError):
        store.save("x")
    output, cut = truncate("x" * 40_000, tool="t", save=store.save)
    assert cut.path is None
    assert "the full text could not be saved" in output


def test_outputs_are_not_written_through_a_link(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "ws"
    outside.mkdir()
    (root / ".ipyagent").mkdir(parents=True)
    (root / ".ipyagent" / "outputs").symlink_to(outside)
    _, cut = truncate("x" * 40_000, tool="t", save=OutputStore(Workspace(root)).save)
    assert cut.path is None
    assert list(outside.iterdir()) == []
