"""A question has its buttons in one place at a time; its other faces lead there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect
from scripted_notebooks import LOAD, LONG, Book, Side, call, plan, script, scroll_away
from user_actions import APPROVE, DENY, press, where_asked

from conftest import Make
from patience import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.same_page]

PROPOSAL, CARD = "at the proposed change", "in the agent’s cell"

INSERT = call("insert_cell", source="x = 1")

EDIT = call("edit_cell", cell=4, source="y = 2")

CELLS = [LONG, LONG, "y = 1", LONG, LONG]
"""Those below the agent's, of which the third is the one to change."""

QUESTION = call("ask_user", question="Which year?", choices=["2023", "2024"])


class Faces:
    """The faces of the question of a notebook whose second cell asks."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.proposal = page.locator("[data-ipyagent=proposal]")
        self.card = page.locator(".jp-OutputArea .ia-tool:has([data-approval])")
        self.panel = page.locator("#ipyagent-panel .ia-tool")

    def expect(self, asks: Locator, place: str, *others: Locator) -> None:
        """Only one has buttons; the others say where that is, with a button that leads there."""
        expect(asks.locator("[data-ipyagent=deny]")).to_be_visible()
        for each in others:
            expect(each.locator(".ipyagent-elsewhere")).to_have_text(f"Asked {place}Show")
            expect(each.get_by_role("button", name="Show where it is asked")).to_be_visible()
        expect(self.page.locator("[data-ipyagent=deny]:visible")).to_have_count(1)
        expect(self.page.locator("[data-approval] input:visible")).to_have_count(1)


@pytest.fixture
def book(jupyterlab: Any, notebook: Make, request: pytest.FixtureRequest) -> Callable[..., Book]:
    """Make a notebook that asks once, with much below its agent's cell."""

    def make(*calls: Any) -> Book:
        name = request.node.name[:40]
        return Book(jupyterlab, notebook, name, [*calls], *CELLS)

    return make


def test_a_proposed_cell_in_sight_asks_and_the_card_leads_there(book: Any) -> None:
    here = book(INSERT)
    side = Side(here.page).open()
    here.ask().waits()
    faces = Faces(here.page)
    expect(side.approvals).to_have_count(1)
    expect(faces.panel).to_have_count(0)
    faces.expect(faces.proposal, PROPOSAL, faces.card)
    here.book.shot("one-face-proposal")
    faces.card.get_by_role("button", name="Show where it is asked").click()
    expect(faces.proposal).to_be_focused()
    here.accept()
    here.book.expect_state(1, "done")
    expect(here.page.locator(".ipyagent-elsewhere")).to_have_count(0)


def test_the_card_asks_while_the_proposed_cell_is_out_of_sight(book: Any) -> None:
    here = book(EDIT)
    here.ask().waits()
    faces = Faces(here.page)
    faces.expect(faces.card, CARD)
    here.scroll_to(4)
    expect(faces.proposal).to_be_in_viewport()
    faces.expect(faces.proposal, PROPOSAL)
    here.scroll_to(1)
    faces.expect(faces.card, CARD)


def test_with_nothing_in_sight_a_toast_leads_to_the_face_that_asks(book: Any) -> None:
    here = book(INSERT)
    side = Side(here.page)
    here.ask().waits()
    scroll_away(here.book, 6)
    faces = Faces(here.page)
    side.status.locator("button").click()
    faces.expect(faces.proposal, PROPOSAL, faces.card)


def test_a_question_is_answered_in_the_card_and_in_the_panel_when_its_cell_is_gone(
    book: Any,
) -> None:
    here = book(QUESTION)
    side = Side(here.page).open()
    here.ask()
    faces = Faces(here.page)
    expect(side.approvals).to_have_count(1)
    faces.expect(faces.card, CARD)
    expect(here.page.locator("[data-ipyagent=choice]:visible")).to_have_count(2)
    remove(here.book, 1)
    faces.expect(faces.panel, "")
    faces.panel.locator("[data-ipyagent=choice]").first.click()
    expect(side.approvals).to_have_count(0)


def remove(book: Any, index: int) -> None:
    """Delete a cell, as a user does whose run is still on."""
    book.prompt(index).click()
    book.command("notebook:delete-cell")


def test_a_plan_is_decided_on_in_its_card_and_in_the_panel_when_its_cell_is_gone(
    jupyterlab: Any, notebook: Make
) -> None:
    option = script(jupyterlab.folder, "one-plan", plan("one-plan"))
    book = notebook(LOAD, f"%%agent {option} --plan\nSummarise.", *[LONG] * 3)
    side = Side(book.page).open()
    book.start(0)
    book.start(1)
    expect(side.approvals).to_have_count(1)
    faces = Faces(book.page)
    card, panel = (
        book.page.locator(f"{place} .ia-plan:has([data-approval])")
        for place in (".jp-OutputArea", "#ipyagent-panel")
    )
    faces.expect(card, CARD)
    remove(book, 1)
    faces.expect(panel, "")
    press(panel.locator("[data-ipyagent=approve]"))
    expect(side.approvals).to_have_count(0)


def test_a_face_that_is_written_in_keeps_its_buttons(book: Any) -> None:
    here = book(EDIT)
    side = Side(here.page).open()
    here.ask().waits()
    faces = Faces(here.page)
    here.scroll_to(1)
    faces.expect(faces.card, CARD)
    faces.card.locator("[data-ipyagent=reason]").fill("why not")
    here.page.locator(".jp-Notebook .jp-CodeCell .cm-content").nth(1).click()
    here.scroll_to(4)
    faces.expect(faces.card, CARD, faces.proposal)
    faces.proposal.get_by_role("button", name="Show where it is asked").click()
    expect(faces.card.locator("[data-ipyagent=reason]")).to_be_in_viewport()
    faces.card.locator("[data-ipyagent=reason]").fill("")
    faces.card.locator("[data-ipyagent=edit]").click()
    here.scroll_to(4)
    faces.proposal.get_by_role("button", name="Show where it is asked").click()
    faces.card.locator("[data-ipyagent=cancel-edit]").click()
    faces.expect(faces.card, CARD)
    expect(side.approvals).to_have_count(1)


def test_the_keys_decide_at_the_proposed_cell(book: Any) -> None:
    here = book(INSERT, call("insert_cell", source="y = 2"))
    side = Side(here.page).open()
    here.ask().waits()
    faces = Faces(here.page)
    faces.expect(faces.proposal, PROPOSAL, faces.card)
    press_while(here, APPROVE, faces.proposal, "x = 1")
    expect(faces.proposal).to_contain_text("y = 2")
    scroll_away(here.book, 6)
    press_while(here, DENY, faces.proposal, "y = 2")
    here.book.expect_state(1, "done")
    expect(side.approvals).to_have_count(0)
    assert here.sources()[0] == "x = 1"


def press_while(here: Any, keys: str, face: Locator, text: str) -> None:
    """As a user does who is told to read first."""
    wanted = face.filter(has_text=text)

    def is_decided() -> bool:
        here.page.keyboard.press(keys)
        here.page.wait_for_timeout(500)
        return wanted.count() == 0

    wait_until(is_decided)


def test_a_proposed_cell_is_changed_in_its_place_and_allowed_for_longer(book: Any) -> None:
    here = book(INSERT, call("insert_cell", source="y = 2"))
    here.ask().waits()
    here.see()
    here.proposals().locator("[data-ipyagent=edit]").click()
    here.proposals().locator("[data-ipyagent=arguments]").fill("x = 10")
    here.proposals().locator("[data-ipyagent=save]").click()
    expect(here.proposals()).to_contain_text("x = 10")
    here.see()
    here.proposals().locator("[data-ipyagent=more-ways]").click()
    here.proposals().locator("[data-ipyagent=always]").click()
    here.book.expect_state(1, "done")
    assert here.sources()[:2] == ["x = 10", "y = 2"]


def test_of_two_views_of_a_notebook_one_asks(book: Any) -> None:
    here = book(INSERT)
    here.ask().waits()
    here.page.evaluate(
        """async () => {
            const { commands, shell } = window.jupyterapp;
            await commands.execute('docmanager:clone');
            shell.add(shell.currentWidget, 'main', { mode: 'split-right' });
        }"""
    )
    faces = Faces(here.page)
    expect(faces.proposal).to_have_count(2)
    views = here.page.locator(".jp-NotebookPanel")
    for index in (1, 0, 1):
        views.nth(index).locator(".jp-InputPrompt").first.click()
        asks = views.nth(index).locator("[data-ipyagent=proposal]")
        faces.expect(asks, PROPOSAL, views.nth(1 - index).locator("[data-ipyagent=proposal]"))
    press(where_asked(here.page))
    expect(faces.proposal).to_have_count(0)


def test_in_notebook_seven_the_proposed_cell_asks_and_the_card_out_of_its_sight(
    notebook_seven: Any, seventh: Make
) -> None:
    option = script(notebook_seven.folder, "faces", {"calls": [EDIT]}, "Done.")
    book = seventh("%load_ext ipyagent", f"%%agent {option}\nOne.", *CELLS)
    book.start(0)
    book.start(1)
    faces = Faces(book.page)
    faces.expect(faces.card, CARD)
    expect(faces.proposal).to_have_count(1)
    scroll = "() => window.jupyterapp.shell.currentWidget.content.scrollToItem(4, 'center')"
    book.page.evaluate(scroll)
    faces.expect(faces.proposal, PROPOSAL)
    press(faces.proposal.locator("[data-ipyagent=approve]"))
    book.expect_state(1, "done")
