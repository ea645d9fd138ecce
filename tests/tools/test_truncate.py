"""Long outputs are cut to what a model should read at once, and kept whole in a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipyagent.errors import PathValidationError
from ipyagent.tools.files import file_tools
from ipyagent.tools.truncate import OutputStore, truncate
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
    assert truncate(text, save=None) == (text, None)


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
    output, cut = truncate(text, save=lambda _: "full.txt")
    assert cut is not None
    assert (cut.original_chars, cut.original_lines, cut.path) == (len(text), lines, "full.txt")
    assert len(output) <= 30_000
    assert len(output.splitlines()) <= 1_000


@pytest.mark.spec("N21", "D25")
@given(
    text=st.text(st.sampled_from("ab \n\r\v\f\x1c\x85\u2028é🙂"), min_size=0, max_size=3_000),
    max_chars=st.integers(250, 2_000),
    max_lines=st.integers(4, 200),
    saved=st.booleans(),
)
def test_body_and_footer_together_never_exceed_the_limits(
    text: str, max_chars: int, max_lines: int, saved: bool
) -> None:
    save = (lambda _: ".ipyagent/outputs/0123456789ab.txt") if saved else None
    output, cut = truncate(text, save=save, max_chars=max_chars, max_lines=max_lines)
    assert len(output) <= max_chars
    assert len(output.splitlines()) <= max_lines
    assert (cut is None) == (output == text)
    assert (cut is None) == (len(text) <= max_chars and len(text.splitlines()) <= max_lines)


def test_the_beginning_and_the_end_are_kept_and_the_footer_says_what_is_missing() -> None:
    text = "".join(f"line {number}\n" for number in range(5_000))
    output, _ = truncate(text, save=lambda _: "full.txt")
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
    _, cut = truncate(text, save=OutputStore(workspace).save)
    assert cut is not None
    assert cut.path is not None
    assert cut.path.startswith(".ipyagent/outputs/")
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


def test_a_root_that_cannot_be_written_costs_the_file_and_not_the_output(tmp_path: Path) -> None:
    # A file where the folder should be stops root, too, whom permissions do not.
    (tmp_path / ".ipyagent").write_text("in the way")
    store = OutputStore(Workspace(tmp_path))
    with pytest.raises(PathValidationError):
        store.save("x")
    output, cut = truncate("x" * 40_000, save=store.save)
    assert cut is not None
    assert cut.path is None
    assert "the full text could not be saved" in output


def test_outputs_are_not_written_through_a_link(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "ws"
    outside.mkdir()
    (root / ".ipyagent").mkdir(parents=True)
    (root / ".ipyagent" / "outputs").symlink_to(outside)
    _, cut = truncate("x" * 40_000, save=OutputStore(Workspace(root)).save)
    assert cut is not None
    assert cut.path is None
    assert list(outside.iterdir()) == []
