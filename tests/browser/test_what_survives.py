"""Whatever the kernel draws anew, what the user does in a card stays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from rich_run import FIXTURES
from test_hostile_browser import page, site

__all__ = ["page", "site"]

pytestmark = [pytest.mark.browser, pytest.mark.slow]

CALL, THOUGHTS, TEXT = "r/s2/c0", "r/s1/t", "r/s1/x/0"

DO = """() => {
    const find = name => document.querySelector(`[data-ipyagent=${name}]`);
    find('thinking').open = true;
    const [box] = find('approve').closest('details').querySelectorAll('pre');
    box.scrollTop = 17;
    find('stop').click();
    find('reason').focus();
    find('reason').setSelectionRange(2, 4);
    window.before = {box, reason: find('reason'), stop: find('stop')};
}"""

SELECT = """selector => {
    const text = document.querySelector(selector).firstChild;
    getSelection().setBaseAndExtent(text, 1, text, 6);
    return getSelection().toString();
}"""

STATE = """() => {
    const {box, reason, stop} = window.before;
    return {
        same: [box, reason, stop].every(each => each.isConnected),
        focus: document.activeElement === reason,
        caret: [reason.selectionStart, reason.selectionEnd],
        typed: reason.value,
        scroll: box.scrollTop,
        stop: [stop.disabled, stop.textContent],
        thinking: document.querySelector('[data-ipyagent=thinking]').open,
    };
}"""


def moments(until: str, call_id: str | None = None) -> list[dict[str, Any]]:
    """The messages of the story up to an event."""
    told: list[dict[str, Any]] = []
    for moment in json.loads((FIXTURES / "run.json").read_text())["moments"]:
        told += moment["messages"]
        if moment["type"] == until and (call_id is None or moment["call_id"] == call_id):
            return told
    raise LookupError(until)


def newest(messages: list[dict[str, Any]], key: str) -> dict[str, Any]:
    """Return a block as it was sent last."""
    drawn = [each for message in messages for each in message["set"] if each["key"] == key]
    return dict(drawn[-1])


def change(seq: int, **parts: Any) -> dict[str, Any]:
    """Return changes with these parts."""
    none: dict[str, Any] = {"set": [], "order": {}, "more": [], "drop": []}
    return {"type": "changes", "seq": seq, **none, **parts}


@pytest.mark.usefixtures("site")
def test_what_a_user_does_in_a_card_survives_whatever_the_kernel_draws(page: Page) -> None:
    """Focus, caret, typed text, folds, scroll and pressed buttons, through all changes."""
    told = moments("approval_requested", "c2")
    page.add_style_tag(content=".ipyagent-card.ipyagent-card pre { max-height: 40px; }")
    for message in told:
        page.evaluate("m => receive(m)", message)
    page.locator("[data-ipyagent=reason]").fill("half a sentence")
    page.evaluate(DO)
    before = page.evaluate(STATE)
    assert before == {
        "same": True,
        "focus": True,
        "caret": [2, 4],
        "typed": "half a sentence",
        "scroll": 17,
        "stop": [True, "Stopping…"],
        "thinking": True,
    }
    seq = told[-1]["seq"]
    call, head = newest(told, CALL), newest(told, "r/h")
    call["html"] = call["html"].replace("</summary>", "<mark>new</mark></summary>", 1)
    call["html"] = call["html"].replace("<pre>", "<p>before</p><pre>", 1)
    head["html"] = head["html"].replace("step", "in step")
    thoughts = newest(told, THOUGHTS)
    thoughts["html"] = thoughts["html"].replace("<summary>", "<summary>more: ")
    order = next(each["order"]["r"] for each in reversed(told) if "r" in each["order"])
    fold = '<details class="ia-steps" open><summary class="ia-line">steps</summary></details>'
    group = {"key": "r/g0", "html": fold, "more": "", "own": None}
    steps = ["r/s1", "r/s2"]
    behind = [each for each in order if each not in steps]
    behind.insert(behind.index("r/t"), "r/g0")
    changes: list[dict[str, Any]] = [
        {"set": [call]},
        {"set": [head, thoughts]},
        {"set": [newest(told, "r/n") | {"html": "<div>other notes</div>"}]},
        {"set": [group], "order": {"r": behind, "r/g0": steps}},
        {"order": {"r": order}, "drop": ["r/g0"]},
    ]
    for at, parts in enumerate(changes, 1):
        page.evaluate("m => receive(m)", change(seq + at, **parts))
        assert page.evaluate(STATE) == before, parts
    expect(page.locator("[data-tool=run_python] summary mark")).to_have_text("new")
    expect(page.locator(".ipyagent-live")).to_contain_text("more: ")
    # A page that missed something gets all of it again.
    page.evaluate("m => receive(m)", change(seq + 99))
    assert page.evaluate("sent.at(-1).type") == "resync"
    whole = {key: newest(told, key) for message in told for key in keys_of(message)}
    gone = {key for message in told for key in message.get("drop", ())} - {"r/s1/x", TEXT}
    blocks = [block for key, block in whole.items() if key not in gone]
    orders: dict[str, Any] = {}
    for message in told:
        orders |= message["order"]
    snapshot = told[0] | {"seq": seq + 99, "set": blocks, "order": orders}
    page.evaluate("m => receive(m)", snapshot)
    assert page.evaluate(STATE) == before


def keys_of(message: dict[str, Any]) -> list[str]:
    return [each["key"] for each in message["set"]]


def test_what_is_selected_in_a_text_stays_so_while_the_text_goes_on(page: Page) -> None:
    for message in moments("message_finished")[:-2]:
        page.evaluate("m => receive(m)", message)
    before = page.evaluate(SELECT, ".ia-step > .ia-markdown p")
    assert before
    told = moments("message_finished")
    for message in told[-2:-1]:
        assert message["more"], message
        page.evaluate("m => receive(m)", message)
    for at in range(50):
        more = [{"key": TEXT, "text": f" and {at}"}]
        page.evaluate("m => receive(m)", change(told[-2]["seq"] + 1 + at, more=more))
    expect(page.locator(".ipyagent-live")).to_contain_text("and 49")
    assert page.evaluate("getSelection().toString()") == before
