from __future__ import annotations

from collections.abc import Iterator

import hostile
import pytest
from bs4 import BeautifulSoup
from inspection import controls, dangers
from IPython.core.interactiveshell import InteractiveShell
from sample import figure, run, sample_run

from ipyagent.schema import Display, Run, ToolResult, TruncatedOutput
from ipyagent.ui import register_formatters
from ipyagent.ui.static_html import RUN_MIME, saved_bundle, tool_result_bundle

OURS = {"class": {"tex2jax_ignore mathjax_ignore"}}
TABLE = Display(data={"text/html": "<table><tr><td>1</td></tr></table>", "text/plain": "1"})


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    shell = InteractiveShell()
    register_formatters(shell)
    yield shell
    shell.history_manager.end_session()


def drawn(result: ToolResult) -> BeautifulSoup:
    return BeautifulSoup(tool_result_bundle(result)["text/html"], "html.parser")


def test_a_result_shows_its_text_tables_and_images():
    soup = drawn(ToolResult(output="two lines\nof text", displays=(TABLE,), images=(figure(),)))
    assert soup.pre.get_text() == "two lines\nof text"
    assert soup.td.get_text() == "1"
    assert soup.img["src"].startswith("data:image/png")


@pytest.mark.spec("M21")
def test_a_failed_result_says_so_and_why():
    failed = tool_result_bundle(ToolResult.failure("no such file"))
    assert "✗ failed" in failed["text/html"]
    assert "no such file" in failed["text/html"]
    assert failed["text/plain"] == "✗ no such file"


def test_the_text_of_a_result_is_concise():
    cut = TruncatedOutput(
        tool_name="read_file", original_chars=9_000, original_lines=100, path="outputs/1.txt"
    )
    long = ToolResult(output="line\n" * 100, images=(figure(),), displays=(TABLE,), truncated=cut)
    shown = tool_result_bundle(long)["text/plain"]
    cut_text = "Cut from 100 lines, 9,000 characters. All of it: outputs/1.txt"
    assert shown.startswith(f"✓ · 1 image · 1 display · {cut_text}\nline\n")
    assert shown.endswith("… 60 more lines; the full text is in its .output")
    assert tool_result_bundle(ToolResult())["text/plain"] == "✓"


def test_ipython_shows_results_and_runs_in_our_way(shell: InteractiveShell):
    data, _ = shell.display_formatter.format(ToolResult(output="<b>"))
    assert "<pre><code>&lt;b&gt;</code></pre>" in data["text/html"]
    assert data["text/plain"] == "✓ <b>"
    data, _ = shell.display_formatter.format(sample_run())
    assert data == saved_bundle(sample_run())
    assert Run.from_dict(data[RUN_MIME]).prompt == sample_run().prompt


def test_results_in_a_tuple_are_concise_too(shell: InteractiveShell):
    data, _ = shell.display_formatter.format((ToolResult(output="ok"), ToolResult.failure("no")))
    assert data["text/plain"] == "(✓ ok, ✗ no)"


def test_the_classes_bring_no_html_of_their_own():
    for shown in (ToolResult(output="<b>"), run()):
        assert not hasattr(shown, "_repr_html_")
        assert not hasattr(shown, "_repr_mimebundle_")


@pytest.mark.spec("D5", "H17")
def test_no_result_acts_whatever_it_holds():
    assert len([p for p in hostile.ALL if dangers(p)]) > 100
    for payload in hostile.ALL:
        for result in hostile.run_full_of(payload).results:
            shown = tool_result_bundle(result)
            assert dangers(shown["text/html"], OURS) == []
            assert not controls(shown["text/html"] + shown["text/plain"])
