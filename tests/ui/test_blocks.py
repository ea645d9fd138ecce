"""A run as blocks of HTML: keys, titles, folds and changes, and the room that its card takes."""

from __future__ import annotations

from typing import Any

import pytest
from bs4 import BeautifulSoup
from nbconvert import HTMLExporter
from playwright.sync_api import Browser
from sample import call, done, figure, run, run_html, said, sample_run, text
from test_static_html import notebook

from ipyagent import schema as s
from ipyagent.ui.blocks import join_blocks, list_blocks
from ipyagent.ui.transcribe import transcribe

LOADING = (
    "files = ['a.csv', 'b.csv', 'c.parquet']\nq = pd.concat(map(pd.read_csv, files))\nq.head()"
)


def python(number: int, code: str, **changes: Any) -> s.Step:
    made = done(
        call(f"c{number}", "run_python", {"code": code}), "", **{"sensitive": True, **changes}
    )
    return s.Step(number=number, executions=(made,))


def look(number: int) -> s.Step:
    return python(number, f"q.describe({number})", decided_by=s.DecidedBy.REHEARSAL)


def change(number: int, *names: str) -> s.Step:
    touched = tuple(s.VariableChange(name=name, change="created") for name in names)
    return python(number, "x = 1", result=s.ToolResult(variables=touched))


def answer(number: int) -> s.Step:
    return s.Step(number=number, message=said(text("It is **42**.")))


def lines(of: s.Run) -> list[str]:
    """The lines of a card that are in sight without opening any."""
    soup = BeautifulSoup(run_html(of), "html.parser")
    shown = [each for each in soup.select("summary") if len([*each.find_parents("details")]) == 1]
    return [" ".join(each.get_text().split()) for each in shown]


def test_each_block_has_a_key_of_its_own_and_stands_in_its_parent() -> None:
    blocks = [*list_blocks(transcribe(sample_run()))]
    keys = [each.key for each in blocks]
    assert len({*keys}) == len(keys)
    assert {"r", "r/n", "r/s2/c0", "r/s2/c0/m", "r/s3/x", "r/f"} <= {*keys}
    assert all(each.parent in keys[:place] for place, each in enumerate(blocks[1:], 1))
    marked = [
        each._replace(html=each.html.replace(">", f' id="{each.key}">', 1)) for each in blocks
    ]
    soup = BeautifulSoup(join_blocks(marked), "html.parser")
    for each in blocks[1:]:
        assert soup.find(id=each.key).parent["id"] == each.parent


def test_blocks_of_what_does_not_change_are_equal() -> None:
    steps = (look(1), change(2, "x"), look(3))
    on = {"status": s.RunStatus.RUNNING, "stop_reason": None, "duration": None}
    before, after = (
        {each.key: each for each in list_blocks(transcribe(run(steps[:count], **on)))}
        for count in (2, 3)
    )
    changed = {key for key in after if before.get(key) != after[key]}
    assert changed - {"r/h", "r/f"} == {"r/s3", "r/s3/c0"}  # the first line, and the last


def test_the_steps_of_a_finished_run_are_one_line_with_what_they_changed() -> None:
    steps = (look(1), look(2), change(3, "a", "b"), look(4), change(5, "c"))
    assert lines(run((*steps, answer(6)))) == [
        "✎ Looked 3 times · 2 changes a created b created c created",
        "12.3 s · anthropic/claude-sonnet · details",
    ]
    assert lines(run((look(1), answer(2))))[0] == "⌕ looks at q: describe"
    assert lines(run((change(1, "x"), answer(2))))[0] == "✎ makes x x created"
    many = change(1, *"abcdef"), look(2), answer(3)
    assert "d created … 2 more" in lines(run(many))[0]
    assert len(lines(run((*steps, answer(6)), verbose=1))) == 6


def test_the_line_of_several_steps_names_the_files_of_diffs() -> None:
    diff = s.Preview(kind="diff", text="--- a/b.md\n+++ b/b.md\n@@ -1 +1 @@\n-old\n+new\n")
    write = call("c1", "write_file", {"path": "b.md", "content": "new"})
    wrote = s.Step(number=1, executions=(done(write, "", sensitive=True, preview=diff),))
    assert lines(run((wrote, change(2, "x"), answer(3))))[0] == "✎ 2 changes b.md +1 −1 x created"
    assert lines(run((wrote, answer(2))))[0] == "▤ writes file b.md +1 −1"


def test_looks_in_a_row_are_one_line_while_a_run_is_on() -> None:
    on = {"status": s.RunStatus.RUNNING, "stop_reason": None, "duration": None}
    steps = (look(1), look(2), look(3), change(4, "x"), look(5))
    assert lines(run(steps, **on)) == [
        "⌕ Looked 3 times", "✎ makes x x created", "⌕ looks at q: describe", "details",
    ]  # fmt: skip


def test_a_figure_and_the_table_before_the_answer_stay_in_sight() -> None:
    table = s.Display(data={"text/html": "<table><tr><td>7</td></tr></table>", "text/plain": "7"})
    drawn = python(1, "q.plot()", result=s.ToolResult(images=(figure(),)))
    shown = [python(n, "q.head()", result=s.ToolResult(displays=(table,))) for n in (2, 3)]
    soup = BeautifulSoup(run_html(run((drawn, *shown, answer(4)))), "html.parser")
    assert soup.img.find_parent("details") is None
    assert [each.find_parent("details") is None for each in soup.select("td")] == [False, True]


def test_a_call_that_was_taken_back_is_struck_through() -> None:
    soup = BeautifulSoup(
        run_html(run((change(1, "x"), answer(2)), taken_back=("c1",))), "html.parser"
    )
    assert soup.s.get_text() == "makes x"
    assert soup.select_one(".ia-header").get_text() == "taken back"


ONE_LINE, WITH_STEPS, UNFOLDED = 60, 160, 2_000
SIZES = {"12px", "13px", "14px"}
MEASURE = "document.querySelector('[data-ipyagent=run]').getBoundingClientRect().height"
FONT_SIZES = """[...document.querySelectorAll('[data-ipyagent=run] *')]
    .filter(each => each.checkVisibility() && each.innerText)
    .map(each => getComputedStyle(each).fontSize).filter(size => size !== '0px')"""


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_card_takes_little_room_and_has_three_sizes_of_text(
    chromium: Browser, theme: str
) -> None:
    long = run((*map(look, range(1, 62)), answer(62)), max_steps=80)
    heights = []
    page = chromium.new_page(viewport={"width": 1000, "height": 700})
    for of in (run((answer(1),)), long, sample_run()):
        page.set_content(HTMLExporter(theme=theme).from_notebook_node(notebook(of))[0])
        heights.append(page.evaluate(MEASURE))
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert {*page.evaluate(FONT_SIZES)} <= SIZES
        page.evaluate(
            "document.querySelectorAll('[data-ipyagent=tool]').forEach(each => each.open = false)"
        )
        heights.append(page.evaluate(MEASURE))
    page.close()
    assert heights[0] <= ONE_LINE
    assert heights[2] <= WITH_STEPS
    assert heights[3] <= UNFOLDED
