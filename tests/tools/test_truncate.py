"""Long outputs are cut to what a model should read at once, and kept whole in a file."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from ipyagent.errors import PathValidationError
from ipyagent.schema import TruncationConfig
from ipyagent.tools.file_tools import file_tools
from ipyagent.tools.folder import MAX_BYTES
from ipyagent.tools.result_conversion import OutputStore, truncate
from ipyagent.tools.workspace import Workspace


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
