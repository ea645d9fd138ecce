"""Numbers of an answer are marked where they stand, say where they come from, and never act."""

from __future__ import annotations

import hostile
import pytest
from bs4 import BeautifulSoup
from hypothesis import given, strategies as st
from inspection import dangers
from sample import call, done, render, run, run_html, said, text

from growth import LINEAR, growth
from ipyagent import schema as s
from ipyagent.numbers import TracedNumber, trace_numbers
from ipyagent.ui.sanitize import markdown_to_html
from ipyagent.ui.static_html import saved_bundle
from ipyagent.ui.transcribe import transcribe
from ipyagent.ui.transcript import AnswerNumber

MASS = "        count         mean\nAdelie    151  3700.662252\nGentoo    123  5076.016260"
ANSWER = "Gentoos weigh **5,076 g**, 1,375 g more than Adelies with 3,701 g; in all 9,999."


def answered(answer: str = ANSWER, **changes: object) -> s.Run:
    measured = done(call("c1", "run_python", {"code": "mass"}), MASS)
    steps = (
        s.Step(number=1, executions=(measured,)),
        s.Step(number=2, message=said(text(answer))),
    )
    begun = run(steps, **changes)
    return begun.model_copy(update={"numbers": tuple(trace_numbers(answer, begun.texts_read))})


def marked(answer: str, *numbers: str) -> dict[str, str]:
    """Mark the first of each of these texts; return the marked ones with where they stand."""
    at = ((answer.index(each), each) for each in numbers)
    given = tuple(
        AnswerNumber(start=start, text=each, trace="found", title="there")
        for start, each in sorted(at)
    )
    soup = BeautifulSoup(markdown_to_html(answer, given), "html.parser")
    return {each.text: each.parent.name for each in soup.select(".ia-traced") if each.parent}


def test_each_number_says_where_it_comes_from() -> None:
    soup = BeautifulSoup(run_html(answered()), "html.parser")
    shown = {each.text: each["title"] for each in soup.select("[data-ipyagent=answer] [title]")}
    assert shown == {
        "5,076": "run_python, step 1, line 3: Gentoo 123 5076.016260",
        "1,375": "= 5,076 - 3,701 (run_python, step 1, line 3)",
        "3,701": "run_python, step 1, line 2: Adelie 151 3700.662252",
        "9,999": "in no result",
    }
    assert [each.text for each in soup.select("u")] == ["9,999"]
    assert {each["tabindex"] for each in soup.select(".ia-traced")} == {"0"}


@pytest.mark.parametrize(
    ("answer", "count"),
    [
        (ANSWER, "1 number is in no result"),
        ("8,888 and 9,999", "2 numbers are in no result"),
        ("5,076", ""),
    ],
)
def test_the_last_line_counts_the_numbers_that_are_in_no_result(answer: str, count: str) -> None:
    drawn = answered(answer)
    assert transcribe(drawn).footer.numbers == count
    for shown in (run_html(drawn), render(drawn), str(saved_bundle(drawn)["text/plain"])):
        assert ("in no result" in shown.replace("9,999", "")) == bool(count)
        assert count in shown


def test_a_number_of_the_prompt_or_of_an_earlier_turn_says_so() -> None:
    numbers = (
        TracedNumber("500", 0, "found", "", 1),
        TracedNumber("600", 4, "found", "another", 7),
    )
    drawn = answered("500 600").model_copy(update={"numbers": numbers})
    titles = [each.title for each in transcribe(drawn).steps[1].numbers]
    assert titles == [
        "in a prompt, or in what was sent with it",
        "in an earlier result, line 7",
    ]
    assert "ia-at-" not in run_html(drawn)


def test_a_number_names_its_call_among_those_of_a_step_also_if_it_is_derived() -> None:
    numbers = (
        TracedNumber("500", 0, "derived", "c1", 1, "200 + 300"),
        TracedNumber("600", 4, "found", "c2", 1),
    )
    code = {"code": "mass"}
    calls = tuple(done(call(n, "run_python", code), f"{n}: 600") for n in ("c1", "c2"))
    step = s.Step(number=1, executions=calls)
    drawn = run((step, s.Step(number=2, message=said(text("500 600")))))
    drawn = drawn.model_copy(update={"numbers": numbers})
    assert [each.title for each in transcribe(drawn).steps[1].numbers] == [
        "= 200 + 300 (run_python, step 1, call 1, line 1)",
        "run_python, step 1, call 2, line 1: c2: 600",
    ]
    shown = BeautifulSoup(run_html(drawn), "html.parser").select(".ia-traced")
    assert [each["class"][-1] for each in shown] == ["ia-at-1-1", "ia-at-1-2"]


def test_an_answer_in_two_replies_has_the_numbers_of_the_second_marked() -> None:
    cut = s.Step(number=1, message=said(text("It is 1,111 ")), finish_reason="length")
    rest = s.Step(number=2, message=said(text("or 2,222.")))
    begun = run((cut, rest))
    numbers = tuple(trace_numbers(begun.output, []))
    assert [each.text for each in numbers] == ["1,111", "2,222"]
    drawn = transcribe(begun.model_copy(update={"numbers": numbers}))
    assert [(each.start, each.text) for each in drawn.steps[1].numbers] == [(3, "2,222")]
    assert drawn.footer.numbers == "2 numbers are in no result"


@pytest.mark.parametrize(
    "answer",
    [
        "# About 777 of them\n\ntext",
        "> - one\n>   with 777\n",
        "| a | b |\n|---|---|\n| x | 777 |",
        "| a | b |\n|---|---|\n| `6` | **777** |",
        "👩‍💻 é 777",
        "[777 rows](https://x.example)",
        "a *b\n    c 777*",
        "1. first\n2. of 777",
    ],
)
def test_a_number_is_marked_wherever_it_stands(answer: str) -> None:
    assert [*marked(answer, "777")] == ["777"]


@pytest.mark.parametrize(
    "answer",
    [
        "`777`",
        "```\n777\n```",
        "    777",
        "&#777;",
        "\\\n![777](data:image/png;base64,AAAA)",
        "<https://x.example/777>",
        "https://x.example/777",
        "[x](https://x.example/777)",
        "[x]: https://x.example/777\n\n[x]",
        "| a |\n|---|\n| x \\| 777 |",
    ],
)
def test_what_is_not_drawn_as_it_was_written_stays_as_it_is(answer: str) -> None:
    assert marked(answer, "777") == {}
    assert "data" not in markdown_to_html(answer).replace("data:image", "")


def test_marks_change_nothing_else() -> None:
    answer = "**5,076** [44](https://x.example) _a_ 33*8 `9`\n\n- 10\n- $11\n"
    numbers = tuple(
        AnswerNumber(start=answer.index(each), text=each, trace="found", title="")
        for each in ("5,076", "44", "33", "8", "10", "$11")
    )
    html = markdown_to_html(answer, numbers)
    soup = BeautifulSoup(html, "html.parser")
    assert len(soup.select(".ia-traced")) == len(numbers)
    for each in soup.select(".ia-traced"):
        each.unwrap()
    assert str(soup) == str(BeautifulSoup(markdown_to_html(answer), "html.parser"))


@pytest.mark.spec("D5", "A27")
@given(st.lists(st.sampled_from(hostile.ALL), min_size=2, max_size=3), st.integers(-9, 60))
def test_no_answer_and_no_source_acts(payloads: list[str], start: int) -> None:
    answer = payloads[0]
    given = tuple(
        AnswerNumber(start=start, text=answer[max(0, start) :][:9], trace=trace, title=payloads[1])
        for trace in ("found", "not found")
    )
    html = markdown_to_html(answer, given)
    soup = BeautifulSoup(html, "html.parser")
    for each in soup.select(".ia-traced"):
        assert {*each.attrs} == {"class", "title", "tabindex"}
        each.unwrap()
    assert dangers(str(soup)) == []


def test_a_run_of_others_cannot_name_what_is_not_there() -> None:
    numbers = tuple(
        TracedNumber(each, start, "found", "c1", -3, "x")
        for each, start in (("", 0), ("8,888", 3), ("Gentoos", 9**20), ("Gentoos", -1), ("\n", 2))
    )
    soup = BeautifulSoup(
        run_html(answered().model_copy(update={"numbers": numbers})), "html.parser"
    )
    assert soup.select(".ia-traced") == []


@pytest.mark.parametrize("piece", ["777 *", "| \\| 777 ", "777\n", "[777](", "- 777\n"])
def test_marks_take_linear_time(piece: str) -> None:
    def mark(count: int) -> None:
        answer = ("| a |\n|---|\n" if "|" in piece else "") + piece * count
        numbers = tuple(
            AnswerNumber(
                start=n * len(piece) + piece.index("7"), text="777", trace="found", title=""
            )
            for n in range(min(count, 1000))
        )
        markdown_to_html(answer, numbers)

    assert growth(mark, 1_000) < LINEAR
