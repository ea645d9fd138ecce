"""With a real layout: what approves does nothing before all of what is asked has been in sight."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect
from rich_run import live_run, saved_run, snapshot
from test_hostile_browser import Site, page, site

from patience import wait_until

__all__ = ["page", "site"]

pytestmark = [pytest.mark.browser, pytest.mark.slow]

DECIDED = "() => window.sent.filter(({type}) => type === 'decide').length"
SHOWN = """code => {
    const range = new Range();
    const text = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
    while (text.nextNode()) {
        if (text.currentNode.data.includes('evil')) range.selectNode(text.currentNode);
    }
    const line = range.getBoundingClientRect();
    const box = code.closest('pre').getBoundingClientRect();
    return line.height > 0 && line.bottom <= box.bottom && line.top >= box.top;
}"""


def ask(page: Page, code: str, name: str = "a", kind: str = "code") -> Locator:
    """Draw a call that waits; return its card."""
    run: dict[str, Any] = saved_run()
    step = run["steps"][1]
    execution = step["executions"][0]
    execution |= {"status": "awaiting_approval", "result": None, "decision": None}
    execution["call"]["arguments"] = {"code": code}
    execution["preview"] = {"kind": kind, "language": "python", "text": code}
    run |= {"id": name, "status": "running", "stop_reason": None, "plan": [], "steps": [step]}
    approvals = {execution["call"]["id"]: name}
    page.evaluate("m => receive(m)", snapshot(live_run(run, approvals=approvals)))
    return page.locator("[data-ipyagent=tool]")


def press(button: Locator) -> None:
    """With the mouse, whether or not the button is active."""
    button.click(force=True)


def look_until_active(approve: Locator) -> None:
    """As a user does who is shown what was not seen, and reads it."""
    expect(approve).to_have_attribute("aria-disabled", "true")

    def is_active() -> bool:
        press(approve)
        try:
            expect(approve).to_be_enabled(timeout=1_000)
        except AssertionError:
            return False
        return True

    wait_until(is_active)


@pytest.mark.spec("H17")
def test_approve_does_nothing_before_the_end_of_the_code_was_in_sight(
    site: Site, page: Page
) -> None:
    page.set_viewport_size({"width": 1000, "height": 900})
    card = ask(page, "\n".join([*(f"a{n} = {n}" for n in range(300)), "evil = 1"]))
    approve, more = card.locator("[data-ipyagent=approve]"), card.locator("[data-ipyagent=more]")
    code = card.locator("pre code")
    expect(more).to_have_text("↓ 281 more lines")
    assert not code.evaluate(SHOWN)
    look_until_active(approve)
    assert page.evaluate(DECIDED) == 0
    expect(more).to_be_hidden()
    assert code.evaluate(SHOWN)
    press(approve)
    assert page.evaluate(DECIDED) == 1


@pytest.mark.spec("H17")
def test_a_diff_that_has_been_in_sight_can_be_approved_unless_something_covers_it(
    site: Site, page: Page
) -> None:
    page.set_viewport_size({"width": 1000, "height": 900})
    card = ask(page, "@@ -1 +1 @@\n-a = 1\n+a = 2", kind="diff")
    expect(card.locator("[data-ipyagent=approve]")).to_be_enabled()
    page.evaluate("""() => {
        const cover = document.createElement('div');
        cover.style = 'position: fixed; inset: 0; background: #fff';
        document.body.append(cover);
    }""")
    card = ask(page, "@@ -1 +1 @@\n-a = 1\n+a = 3", "b", kind="diff")
    page.wait_for_timeout(1_500)  # Time alone is no reading.
    expect(card.locator("[data-ipyagent=approve]")).to_have_attribute("aria-disabled", "true")


@pytest.mark.spec("H17")
@pytest.mark.slow
def test_a_box_is_unfolded_by_its_bar_and_a_flood_needs_none(site: Site, page: Page) -> None:
    page.set_viewport_size({"width": 1000, "height": 900})
    card = ask(page, f"x = '{'a' * 100_000}'; evil()")
    approve, more = card.locator("[data-ipyagent=approve]"), card.locator("[data-ipyagent=more]")
    expect(more).to_contain_text("more lines")
    more.click()
    expect(more).to_have_count(0)
    expect(card.locator("pre")).to_be_focused()
    expect(approve).to_have_attribute("aria-disabled", "true")
    # Each press shows what was not seen: the beginning, then the end.
    look_until_active(approve)
    assert page.evaluate(DECIDED) == 0
    card = ask(page, "ok()\n" + "\n" * 3_000 + "\u200b" * 3_000 + " " * 3_000 + "evil()", "b")
    expect(card.locator("pre")).to_contain_text("⟨3,000 empty lines⟩")
    assert card.locator("pre code").evaluate(SHOWN)
    expect(card.locator("[data-ipyagent=approve]")).to_be_enabled()
    expect(more).to_have_count(0)
