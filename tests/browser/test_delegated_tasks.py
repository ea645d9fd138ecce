"""Tasks that an agent delegates, on a page."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect
from scripted_notebooks import LOAD, Side
from user_actions import press

from conftest import Lab, Make
from servers.model_server import Meeting, ModelServer, answer, play

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_questions_of_tasks_stand_below_them_and_their_steps_behind_their_lines(
    jupyterlab: Lab, cells: Make
) -> None:
    tasks = [("delegate", {"task": name}) for name in ("Task A", "Task B")]
    codes = [answer(calls=[("run_python", {"code": f"{name} = 1"})]) for name in ("one", "two")]
    meeting = Meeting(2)
    with ModelServer([]) as model:
        play(
            model,
            The_boss=[answer(calls=tasks), answer("One was done.")],
            Task_A=[meeting.of(codes[0]), answer("I did it.")],
            Task_B=[meeting.of(codes[1]), answer("I could not.")],
        )
        book = cells(
            f"{LOAD}\n%agent config llm.api_base={model.url}",
            "%%agent -m openai/test --tools delegate,run_python\nThe boss asks.",
        )
        side = Side(book.page).open()
        book.start_all()
        card = book.run(1)
        asked = card.locator("[data-ipyagent=tool]:has([data-ipyagent=approve])")
        expect(asked).to_have_count(2)
        press(asked.filter(has_text="Task A").locator("[data-ipyagent=approve]"))
        expect(asked).to_have_count(1)
        press(asked.filter(has_text="Task B").locator("[data-ipyagent=deny]"))
        book.expect_done(1)
        book.shot("delegated")
        tasks = side.runs.locator("li")
        expect(tasks).to_have_count(2)
        expect(tasks.first).to_contain_text("Task A")
        expect(side.runs).to_have_count(1)
        book.save()
    book.page.reload()
    lines = book.page.locator("[data-ipyagent=tool]")
    expect(lines).to_have_count(2)
    code = lines.first.get_by_text("one = 1")
    expect(code.last).not_to_be_visible()
    book.page.locator(".ia-steps > summary").click()
    lines.first.locator("summary").first.click()
    expect(code.last).to_be_visible()
