"""A look is a line of the card, and nothing else on the page: no question comes and goes."""

from __future__ import annotations

from typing import Any

import pytest
from deciding import press
from playwright.sync_api import expect
from scripts import LOAD, python, script
from side_panel import Side
from test_never_lost import THEMES, in_theme, unfold, violations

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.same_page]

RECORD = """() => {
    const QUESTIONS = ['[data-ipyagent=approve]', '[data-ipyagent=deny]', '[data-ipyagent=effects]',
        '[data-ipyagent=panel-approval]', '[data-state=awaiting_approval]', '[data-state=waiting]',
        '.Toastify__toast'];
    const all = selector => [...document.querySelectorAll(selector)];
    const record = { states: [], heights: [] };
    const state = () => ({
        questions: QUESTIONS.filter(each => document.querySelector(each) !== null),
        status: all('[data-ipyagent=status]').map(each => each.textContent).join(),
        title: document.title,
        verdicts: all('.jp-OutputArea .ipyagent-decision').map(each => each.textContent),
    });
    // After layout, and before it is painted.
    const resized = new ResizeObserver(cards =>
        cards.forEach(({ target }) => record.heights.push(target.offsetHeight)));
    const add = () => {
        record.states.push(state());
        all('.jp-OutputArea [data-ipyagent=run]').forEach(card => resized.observe(card));
    };
    const watch = { subtree: true, childList: true, attributes: true, characterData: true };
    new MutationObserver(add).observe(document, watch);
    window.drawn = record;
}"""


@pytest.mark.parametrize("theme", THEMES)
def test_no_drawn_state_of_a_free_look_is_a_question_and_one_is_drawn_whole(
    jupyterlab: Any, notebook: Any, theme: str
) -> None:
    code = "numbers = [1]\nwhile len(numbers) < 3_000_000: numbers += numbers[:90]\nsum(numbers)"
    free = script(jupyterlab.folder, "free", python(code), "That is all.")
    change = script(jupyterlab.folder, "change", python("known.append(3)"), "Done.")
    settings = "agent: {look_freely: true, rehearse_seconds: 60}"
    (jupyterlab.folder / "looks.yaml").write_text(settings)
    book = notebook(
        f"{LOAD}\nknown = [1, 2]",
        f"%%agent {free} --config looks.yaml\nAdd.",
        f"%%agent {change} --config looks.yaml\nChange.",
    )

    def drawn() -> Any:
        return book.page.evaluate("() => window.drawn")

    in_theme(book.page, theme)
    Side(book.page).open()
    book.start(0)
    book.expect_done(0)
    book.page.evaluate(RECORD)
    book.start(1)
    expect(book.run(1).locator(".ipyagent-decision")).to_have_text("looking…")
    book.shot(f"looking-{theme[11:]}")
    book.expect_done(1)
    book.expect_state(1, "done")
    book.shot(f"looked-{theme[11:]}")
    seen = drawn()
    asks = [each for each in seen["states"] if each["questions"] or "waiting" in each["status"]]
    assert asks == []
    assert [each["title"] for each in seen["states"] if each["title"].startswith("(")] == []
    verdicts = [verdict for each in seen["states"] for verdict in each["verdicts"]]
    assert [*dict.fromkeys(verdicts)] == ["looking…", "looked"]
    heights = [each for each in seen["heights"] if each]
    assert max(heights) == heights[-1], "the card jumps"
    book.page.evaluate(RECORD)
    book.start(2)
    book.expect_state(2, "waiting")
    book.shot(f"asked-{theme[11:]}")
    asks = [each["questions"] for each in drawn()["states"]]
    first = next(each for each in asks if "[data-ipyagent=approve]" in each)
    assert "[data-ipyagent=effects]" in first
    unfold(book.page)
    assert violations(book.page) == []
    press(book.run(2).locator("[data-ipyagent=deny]"))
    book.expect_done(2)
