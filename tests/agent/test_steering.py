"""Texts that the user adds while a run is on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from harness import NO, YES, Lab, at_once, call, new_session
from ipyagent.agent.approvals import ALREADY_SENT, NO_RUN
from ipyagent.errors import AgentError, SessionError
from ipyagent.llm.wire import to_openai
from ipyagent.schema import Event, Run, StopReason
from ipyagent.store.journal import Journal
from ipyagent.tools.base import Tool, tool
from replayed import events_from_run


def say(lab: Lab, text: str) -> None:
    lab.environment.approvals.steering.say(text)


def saying(lab: Lab, *texts: str, then: Callable[[], object] = lambda: None) -> Tool:
    """A tool while which the user says something, from another thread."""

    @tool(where="thread")
    def work() -> str:
        """Work."""
        for text in texts:
            say(lab, text)
        then()
        return "worked"

    return work


def refusals_of(lab: Lab, *texts: str) -> tuple[list[str], Run]:
    """Why each text was refused, and the run in which it was said."""
    problems: list[str] = []

    def try_each() -> None:
        for text in texts:
            with pytest.raises(AgentError) as caught:
                say(lab, text)
            problems.append(str(caught.value))

    run = lab.run([{"calls": [call("work")]}, "Done."], tools=[saying(lab, then=try_each)])
    assert run.output == "Done."
    return problems, run


def at_first(event_type: str, do: Callable[[], object]) -> Callable[[Event], None]:
    """Do something when an event of that type comes for the first time."""
    times: list[str] = []

    def heard(event: Event) -> None:
        if event.type == event_type and not times:
            times.append(event.type)
            do()

    return heard


def asked_of(lab: Lab, number: int) -> list[dict[str, Any]]:
    """The messages of a request, as a provider gets them."""
    return list(to_openai(lab.client.requests[number].messages, vision=False))


def texts_in(run: Run) -> list[list[str]]:
    return [[each.text for each in step.user_texts] for step in run.steps]


@pytest.mark.spec("E15")
def test_texts_reach_the_model_with_the_next_request_after_the_results(lab: Lab) -> None:
    work = saying(lab, "Leave out the outliers.", "Rounded, please.")
    run = lab.run([{"calls": [call("work")]}, "Done."], tools=[work])
    messages = asked_of(lab, 1)
    assert [each["role"] for each in messages[-2:]] == ["tool", "user"]
    assert messages[-1]["content"].splitlines() == ["Leave out the outliers.", "Rounded, please."]
    assert texts_in(run) == [[], ["Leave out the outliers.", "Rounded, please."]]
    assert run.unsent == ()
    mine = [m.text for m in lab.session.conversation.messages if m.is_from_user]
    assert mine[1:] == ["Leave out the outliers.", "Rounded, please."]


def test_an_answer_is_not_the_last_word_while_a_text_waits(lab: Lab) -> None:
    heard = at_first("message_delta", lambda: say(lab, "And by sex?"))
    run = lab.run(["Males are heavier.", "By sex: 5,841 and 5,034 g."], heard=heard)
    assert run.output == "By sex: 5,841 and 5,034 g."
    assert [m["role"] for m in asked_of(lab, 1)[-3:]] == ["user", "assistant", "user"]
    assert asked_of(lab, 1)[-1]["content"] == "And by sex?"


def test_a_text_after_a_reply_without_words_stays_a_message_of_its_own(lab: Lab) -> None:
    heard = at_first("message_started", lambda: say(lab, "Are you there?"))
    run = lab.run([{"text": ""}, "Yes."], heard=heard)
    assert run.output == "Yes."
    assert [m["content"] for m in asked_of(lab, 1)[-2:]] == ["[no answer]", "Are you there?"]


def test_a_cut_reply_and_what_follows_a_text_are_two_answers(lab: Lab) -> None:
    heard = at_first("message_delta", lambda: say(lab, "Shorter."))
    run = lab.run([{"text": "A long", "finish_reason": "length"}, "Short."], heard=heard)
    assert run.output == "Short."


def test_it_works_while_a_question_is_open(lab: Lab) -> None:
    def answer(_approval: object) -> Any:
        say(lab, "Use the median instead.")
        return NO

    run = lab.run([{"calls": [call("write_file", path="x", content="y")]}, "I do."], answer=answer)
    assert texts_in(run)[1] == ["Use the median instead."]


@pytest.mark.spec("E15")
def test_a_waiting_text_can_be_taken_back_until_it_is_sent(lab: Lab) -> None:
    steering = lab.environment.approvals.steering
    problems: list[str] = []

    def change_mind() -> None:
        [started] = [e for e in lab.watcher.events if e.type == "run_started"]
        [queued] = [e for e in lab.watcher.events if e.type == "user_texts_changed"][-1:]
        steering.take_back(queued.texts[0].id, started.run.id)
        with pytest.raises(SessionError) as caught:
            steering.take_back(queued.texts[0].id, started.run.id)
        problems.append(str(caught.value))

    work = saying(lab, "No, wait.", "This.", then=change_mind)
    run = lab.run([{"calls": [call("work")]}, "Done."], tools=[work])
    assert texts_in(run) == [[], ["This."]]
    assert problems == [ALREADY_SENT]


def test_a_text_that_cannot_be_sent_is_refused_and_the_run_goes_on(lab: Lab) -> None:
    problems, run = refusals_of(lab, "", " \n", "x" * 10_001)
    assert ["empty" in problems[0], "empty" in problems[1], "10,001" in problems[2]] == [True] * 3
    assert texts_in(run) == [[], []]


def test_the_sessions_validators_check_it_as_they_do_a_prompt(lab: Lab) -> None:
    def no_names(text: str) -> None:
        if "Smith" in text:
            raise ValueError("Leave out names.")

    lab.session.validators.append(no_names)
    assert refusals_of(lab, "Look up Smith.")[0] == ["Leave out names."]


def test_a_secret_in_it_is_hidden_as_in_a_prompt(lab: Lab) -> None:
    secret = "sk-proj-" + "a1B2c3D4e5F6" * 4
    work = saying(lab, f"My key is {secret}.")
    run = lab.run([{"calls": [call("work")]}, "Done."], tools=[work])
    for place in (run.to_dict(), asked_of(lab, 1), lab.watcher.events):
        assert secret not in str(place)
    assert "looks like a secret" in run.notes[0]


def test_without_a_run_it_says_what_to_do(lab: Lab) -> None:
    for _ in range(2):
        with pytest.raises(SessionError, match="%%agent"):
            say(lab, "Hello?")
        lab.run(["Done."])


def test_a_plan_has_no_model_that_could_read_it(lab: Lab) -> None:
    problems: list[str] = []

    def heard(event: Event) -> None:
        if event.type == "tool_running":
            with pytest.raises(SessionError) as caught:
                say(lab, "Faster.")
            problems.append(str(caught.value))

    lab.run(
        [{"text": "1. Write.", "calls": [call("write_file", path="x", content="y")]}],
        plan=True,
        answer=YES,
        heard=heard,
    )
    assert problems == [NO_RUN]


def test_a_text_before_the_plan_is_there_makes_another_plan(lab: Lab) -> None:
    heard = at_first("message_started", lambda: say(lab, "Call it z."))
    replies = [
        {"text": "1. Write.", "calls": [call("write_file", path=path, content="y")]}
        for path in ("x", "z")
    ]
    plan = lab.run(replies, plan=True, answer=NO, heard=heard).plan
    assert [step.call.arguments["path"] for step in plan] == ["z"]


def test_a_text_that_nothing_took_is_kept_with_the_run(lab: Lab) -> None:
    def stop() -> None:
        say(lab, "Too late.")
        lab.cell.stop()

    lab.session = new_session(Journal.open(None))
    with pytest.raises(KeyboardInterrupt):
        lab.run([{"calls": [call("work")]}], tools=[saying(lab, then=stop)])
    run = lab.session.runs[-1]
    assert run.stop_reason is StopReason.INTERRUPTED
    for each in (run, lab.session.journal.run(run.id), Run.from_dict(run.to_dict())):
        assert [text.text for text in each.unsent] == ["Too late."]


def test_a_run_at_its_limit_reads_it_in_its_last_step(lab: Lab) -> None:
    heard = at_first("message_delta", lambda: say(lab, "In grams."))
    run = lab.run(["Four kilos.", "4,000 g."], heard=heard, max_steps=1)
    assert run.steps[-1].closing
    assert texts_in(run)[-1] == ["In grams."]


def test_the_journal_and_the_record_have_it_and_nothing_else_has_a_field_for_it(lab: Lab) -> None:
    lab.session = new_session(Journal.open(None))
    run = lab.run([{"calls": [call("work")]}, "Done."], tools=[saying(lab, "Rounded.")])
    stored = lab.session.journal.run(run.id)
    assert texts_in(stored) == texts_in(Run.from_dict(run.to_dict())) == [[], ["Rounded."]]
    assert any(getattr(event, "user_texts", ()) for event in events_from_run(run))
    data = run.to_dict()
    assert "unsent" not in data
    assert "user_texts" not in data["steps"][0]


def test_many_threads_may_speak_at_once(lab: Lab) -> None:
    texts = [f"Text {n}." for n in range(20)]

    def speak() -> None:
        at_once([partial(say, lab, text) for text in texts])

    run = lab.run([{"calls": [call("work")]}, "Done."], tools=[saying(lab, then=speak)])
    assert sorted(texts_in(run)[1]) == sorted(texts)
