"""Numbers of an answer are found in what the model had read, derived from it, or in no result."""

from __future__ import annotations

import random
import runpy
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from growth import LINEAR, growth
from harness import Lab, call
from ipyagent.numbers import MOST, TracedNumber, trace_numbers
from ipyagent.schema import Run
from ipyagent.tools.base import tool

SCORE = Path(__file__).parents[2] / "benchmarks/numbers/score.py"
MASS = (
    "(344, 8)\n        count         mean\nAdelie    151  3700.662252\nGentoo    123  5076.016260"
)
SALES = "  region   q2    q3\n0 North  226263  160741\n1 South  170480  117528"


def trace(answer: str, *results: str, prompt: str = "") -> dict[str, str]:
    """Return the numbers of an answer with what was found out about them, in a few signs."""
    texts = ("", prompt), *((str(n), text) for n, text in enumerate(results, 1))
    traced = trace_numbers(answer, texts)
    assert all(answer[each.start :].startswith(each.text) for each in traced)
    return {each.text: describe(each) for each in traced}


def describe(each: TracedNumber) -> str:
    return each.formula or (f"{each.source}:{each.line}" if each.line else "?")


def test_a_number_is_found_in_the_line_and_the_call_that_gave_it() -> None:
    answer = (
        "Of 344 penguins 123 are Gentoos with 5,076 g on average, and 151 Adelies with 3,701 g."
    )
    assert trace(answer, "nothing", MASS) == {
        "344": "2:1",
        "123": "2:4",
        "5,076": "2:4",
        "151": "2:3",
        "3,701": "2:3",
    }


def test_a_number_in_several_lines_is_that_of_the_line_with_the_words_around_it() -> None:
    table = "Biscoe  124\nDream   124\nTorgersen 52"
    assert trace("On Dream there are 124.", table) == {"124": "1:2"}


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ("5,076.02", "5076.016260"),
        ("5.1 kg", "5076.016260"),
        ("about 5,100", "5076.016260"),
        ("more than 5,000", "5076.016260"),
        ("nearly 5,100", "5076.016260"),
        ("18k", "18204"),
        ("1.2 million", "1204889.35"),
        ("4.46 trillion", "gdp_musd 4456081"),
        ("40.7 %", "0.40674"),
        ("15.3 percent", "uplift=0.1531"),
        ("36.1 %", "36.1"),
        ("a loss of 58.6 %", "drawdown -0.5856"),
        ("−0.78", "-0.778427"),
        ("3.1 × 10⁻¹⁰⁵", "pvalue=np.float64(3.1328e-105)"),
        ("$3.1 \\times 10^{-105}$", "3.1328e-105"),
        ("1.48 GB", "1,482,331,904 bytes"),
        ("2.0 GiB or 2.15 GB", "2147483648 bytes"),
        ("1.76 s", "max 1756.1 ms"),
        ("12,34,567", "1234567"),
        ("1 234 567,8 und 0,5", "1234567.81 0.5"),
        ("83,3 % und 4.456.081", "0.8329 4456081"),
        ("1'234'567", "1234567"),
        ("£20.70", "20.6975"),
        ("11 August 2014", "953  2014-08-11  35.6"),
        ("August 2014", "2014-08-11"),
        ("Aug 11, 2014", "August 11, 2014"),
        ("4:40 pm", '"2026-02-28T16:40:00Z"'),
        ("٣٧٠١", "3701"),
    ],
)
def test_a_number_is_found_however_it_is_written(answer: str, result: str) -> None:
    assert "?" not in trace(answer, result).values()
    assert trace(answer, result)


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ("5,067", "5076.016260"),
        ("3,700", "3700.662252"),
        ("5,076.1", "5076.016260"),
        ("2.47 billion", "2474101.22"),
        ("247 %", "0.247"),
        ("0.36 %", "0.36"),
        ("0.78", "0.0778"),
        ("−35.2", "35.2"),
        ("more than 5,000", "4930"),
        ("3.1 × 10⁻¹⁰⁷", "3.1328e-105"),
        ("12 August 2014", "2014-08-11"),
        ("16:44", "16:40:00"),
        ("1e299", "1"),
    ],
)
def test_a_wrong_number_is_in_no_result(answer: str, result: str) -> None:
    assert "?" in trace(answer, result).values()


@pytest.mark.parametrize(
    ("answer", "number", "formula"),
    [
        ("North fell by 65,522 from 226,263 to 160,741.", "65,522", "226,263 - 160,741"),
        (
            "North fell by 29 % from 226,263 to 160,741.",
            "29 %",
            "(226,263 - 160,741) / 226,263",
        ),
        (
            "North: 226,263 → 160,741 (−29.0 %).",
            "−29.0 %",
            "(160,741 - 226,263) / 226,263",
        ),
        ("In Q3 both, 160,741 and 117,528, made 278,269.", "278,269", "160,741 + 117,528"),
        ("It is 1.4 times as much: 160,741 and 117,528.", "1.4", "160,741 / 117,528"),
    ],
)
def test_a_number_is_derived_from_two_that_were_found(
    answer: str, number: str, formula: str
) -> None:
    traced = trace(answer, SALES)
    assert traced.pop(number.rstrip(" %")) == formula
    assert "?" not in traced.values()


PLANS = "plan   start  lost  price\nbasic  4210   389   9.0\nteam    917    27  49.0"


@pytest.mark.parametrize(
    ("answer", "number", "formula"),
    [
        ("Of the basic plan we lost 9.2 %.", "9.2", "389 / 4,210"),
        ("Of the basic plan we lost 9.4 %.", "9.4", "?"),
        ("We had 5,127 customers.", "5,127", "4,210 + 917"),
        ("We had 5,172 customers.", "5,172", "?"),
        ("Most of them, 93.5 %, had the basic plan.", "93.5", "389 / (389 + 27)"),
        ("The basic customers that left paid 3,501.", "3,501", "389 \u00d7 9"),
        ("The 389 customers at 9.0 each paid 3,501.", "3,501", "389 \u00d7 9.0"),
        ("Of 5,127 customers 389, or 7.6 %, left.", "7.6", "389 / 5,127"),
    ],
)
def test_a_number_is_derived_from_a_column_or_a_row_that_is_named(
    answer: str, number: str, formula: str
) -> None:
    assert trace(answer, PLANS)[number] == formula


SHOP = (
    "        2023  2024  staff  salary\nNorth   4821  5187     12  3420.5\n"
    "South   2137  2011      7  2985.0\nHarbour 1590  1732      5  3105.0\n"
    "Mill     912  1126      4  2890.0"
)
SOLD_2023, SOLD_2024 = "4,821 + 2,137 + 1,590 + 912", "5,187 + 2,011 + 1,732 + 1,126"
RAIN = "[61.2, 48.7, 55.1, 38.4, 70.9, 82.3]"
TESTED = "[[184   5]\n [  9  50]]"


@pytest.mark.parametrize(
    ("answer", "number", "formula"),
    [
        ("Mill grew by 23.5 %.", "23.5", "(1,126 - 912) / 912"),
        ("Elsewhere it grew by 23.5 %.", "23.5", "?"),
        ("All shops together sold 10,056.", "10,056", SOLD_2024),
        ("From 2023 to 2024 all grew by 595.", "595", "?"),
        ("From 2023 to 2024 all grew by 596.", "596", f"({SOLD_2024}) - ({SOLD_2023})"),
        ("Harbour and Mill sold 2,858 in 2024.", "2,858", "1,126 + 1,732"),
        ("Without North 4,869 were sold in 2024.", "4,869", "2,011 + 1,732 + 1,126"),
        ("In 2024 North sold 3,176 more than South.", "3,176", "5,187 - 2,011"),
        ("Salaries in South: 20,895.", "20,895", "7 × 2,985"),
        ("`Mill` sold 11.2 % of all in 2024.", "11.2", f"1,126 / ({SOLD_2024})"),
    ],
)
def test_a_number_is_derived_from_rows_that_are_named_and_from_their_sums(
    answer: str, number: str, formula: str
) -> None:
    assert trace(answer, SHOP)[number] == formula


@pytest.mark.parametrize(
    ("result", "answer", "number", "formula"),
    [
        (RAIN, "It rained 356.6 mm.", "356.6", "61.2 + 48.7 + 55.1 + 38.4 + 70.9 + 82.3"),
        (RAIN, "The first quarter had 165.0 mm.", "165.0", "61.2 + 48.7 + 55.1"),
        (TESTED, "Of 248 cases 234 were right.", "248", "184 + 5 + 9 + 50"),
        (TESTED, "Of 248 cases 234 were right.", "234", "184 + 50"),
        ("rows 12480\nage 312\nincome 1874", "`income`: 15.0 %.", "15.0", "1,874 / 12,480"),
    ],
)
def test_a_number_is_derived_from_a_list_a_matrix_or_a_count(
    result: str, answer: str, number: str, formula: str
) -> None:
    assert trace(answer, result)[number] == formula


TOWNS = (
    "        n    total      mean  score\nCusco  70   575.0   8.21  61.9\n"
    "Lagos  81  1971.0  24.33  63.2\nOslo   52  1102.0  21.19  62.4\n"
    "Perth  66   842.0  12.76  60.8\nQuito  64   517.0   8.08  61.0"
)


def test_the_two_rows_that_are_named_are_compared_first() -> None:
    assert trace("Cusco has 1.11 times as much as Quito.", TOWNS)["1.11"] == "575 / 517"
    assert trace("Cusco has 1.19 times as much as Quito.", TOWNS)["1.19"] == "?"


def test_a_number_in_a_table_is_derived_by_the_head_of_its_column() -> None:
    answer = "| shop | sold per head |\n|---|---|\n| Mill | 282 |"
    assert trace(answer, SHOP)["282"] == "1,126 / 4"
    assert trace("Mill: 282", SHOP)["282"] == "?"


def test_a_number_of_few_digits_is_compared_with_few_others() -> None:
    """Any two digits follow from some numbers of a table."""
    flagged = [n for n in range(11, 100) if trace(f"It is {n} % more.", SHOP) == {f"{n}": "?"}]
    assert len(flagged) > 75


def test_a_derived_number_names_the_line_of_one_that_it_comes_from() -> None:
    (traced,) = trace_numbers("In Mill it grew by 23.5 %.", [("1", "nothing"), ("2", SHOP)])
    assert (traced.source, traced.line) == ("2", 5)
    *_, traced = trace_numbers("Mill: 1,126 of 4,821, or 23.4 %.", [("2", SHOP)])
    assert (traced.source, traced.formula) == ("2", "1,126 / 4,821")


def test_a_percentage_change_may_be_of_percentages() -> None:
    traced = trace("Churn rose from 4.8 % to 5.3 %, by 11 %; never by 13 %.", "0.0481 0.0534")
    assert (traced["11"], traced["13"]) == ("(5.3 - 4.8) / 4.8", "?")


def test_the_rest_of_a_percentage_is_derived_from_it() -> None:
    assert trace("83 % have paid, 17 % remain.", "0.83")["17"] == "100 - 83"


def test_a_share_may_be_of_a_total_that_only_the_result_has() -> None:
    assert trace("123 (35.8 %) are Gentoos.", MASS)["35.8"] == "123 / 344"


def test_numbers_of_different_size_or_precision_do_not_combine() -> None:
    result = "0.76\n1310.25\n12.5\n400"
    assert trace("With 0.76 and 1,310.25 that makes 1,311.", result)["1,311"] == "?"
    assert trace("With 12.5 and 400 that makes 413.", result)["413"] == "?"


def test_a_year_is_no_operand_of_other_numbers() -> None:
    assert trace("In 2017 it was 37, less than 1,980.", "2017 37")["1,980"] == "?"


@pytest.mark.parametrize(
    "answer",
    [
        "There are two species on 3 islands.",
        "1. First\n2. Second\n12. Twelfth",
        "Use `n=500` or\n```\nrun(12345)\n```\n",
        "See [the docs](https://x.org/v12/345) and https://x.org/678.",
        "The 21st of them, in the 1990s, in Q3, of AX-2207 in v3.25.",
        "Python 3.12 and pandas 2.2 in cell 12, figure 14.",
        "p < 0.05, so it is significant; the 95 % confidence interval excludes zero.",
        "alpha = 0.05, with a 30-day window at 9:00.",
        "the first 20 rows",
    ],
)
def test_what_is_no_claim_is_left_out(answer: str) -> None:
    assert trace(answer, "0 1") == {}


def test_a_p_value_is_a_claim() -> None:
    assert trace("p = 0.03 and p = 2.3 × 10⁻⁹", "0.04 3.1e-9") == {"0.03": "?", "2.3 × 10⁻⁹": "?"}


def test_numbers_of_the_prompt_are_the_users_own() -> None:
    assert trace("The limit of 250,000 holds.", prompt="Limit: 250000 EUR") == {"250,000": ":1"}


def test_the_second_number_of_a_range_is_not_negative() -> None:
    assert trace("2,700–6,300 g", "2700 6300") == {"2,700": "1:1", "6,300": "1:1"}


def test_a_number_without_a_unit_may_have_that_of_its_neighbor() -> None:
    assert trace("The rates are 98.1 % ± 0.7.", "0.98068 0.00654") == {"98.1": "1:1", "0.7": "1:1"}


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "nan inf -inf NaN % ∞",
        "1e299e299 1e-299 1.000000000000000000000000000001e-299",
        "1e999999999 2e-99999 10^999 × 10^999",
        "9" * 5000 + " " + "1," * 5000 + " " + "0." * 5000,
        "²³ ½ Ⅷ 五 ๓๔๕ १२३",
        "1.2.3.4 1,2,3,4 1..2 ,, .5. -.5 --5 +-5",
        "0 0.0 0% -0 0/0 = 0.00",
        "99:99 13:61 2014-99-99 February 31 31 February 9999",
        "\ud800 12",
    ],
)
@pytest.mark.parametrize(
    "result", ["", "nan inf 1e999 -1e999 0 0.0", "12 0.5 1e-320", "1,2,,3 1.2.3"]
)
def test_odd_numbers_do_no_harm(answer: str, result: str) -> None:
    for each in trace_numbers(answer, [("", result), ("1", answer)]):
        assert each.trace in ("found", "derived", "not found")


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize(
    "piece",
    [
        *("`", "` ", "```\n", "](", "<", "<a ", "1,", "1 ", "111,", "111.", "1.", "-", "a-", "a1-"),
        *(
            "9",
            "a",
            "\n",
            "\n \n",
            ". ",
            ".  A",
            "first ",
            "p < 0",
            "March ",
            "12 March ",
            "1:",
            "x10^",
        ),
        *("5 % of 12, ", "12 and 345.6 ", "http://", "( ", "> 1", "¹"),
    ],
)
def test_no_answer_takes_more_than_linear_time(piece: str) -> None:
    assert (
        growth(lambda size: trace_numbers(piece * (size // len(piece)), [("1", piece * 9)]), 40_000)
        < LINEAR
    )
    assert (
        growth(lambda size: trace_numbers("12,345", [("1", piece * (size // len(piece)))]), 40_000)
        < LINEAR
    )


def test_an_answer_of_a_megabyte_is_looked_up_in_part() -> None:
    traced = trace_numbers("It is 12.5 % of 12,345. " * 45_000, [("1", "12345 0.125")])
    assert len(traced) == MOST


@pytest.mark.slow
@pytest.mark.alone
def test_a_hundred_numbers_cost_little_more_than_reading_the_results() -> None:
    chance = random.Random(1)
    values = [chance.lognormvariate(5, 3) for _ in range(50_000)]
    text = "\n".join(f"{value:.4f}" for value in values)
    answer = ", ".join(f"{value:.4g}" for value in values[:100])
    begun = time.process_time()
    trace_numbers("12,345", [("1", text)])
    read = time.process_time()
    trace_numbers(answer, [("1", text)])
    assert time.process_time() - read < 4 * (read - begun)


@tool
def measure(of: str) -> str:
    """Measure a group."""
    return {"rows": "a header\nrows 18204", "mass": MASS, "five": "77 of five"}[of]


def measured(of: str) -> dict[str, Any]:
    return {"calls": [call("measure", of=of)]}


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_a_run_has_the_numbers_of_its_answer(lab: Lab) -> None:
    answer = "18,204 rows, 77 of 500, and 12,345."
    replies = [measured("rows"), measured("five"), answer]
    run = lab.run(replies, "More than 500?", tools=[measure])
    rows, five = (each.call.id for each in run.executions)
    assert [(each.text, each.trace, each.source) for each in run.numbers] == [
        ("18,204", "found", rows),
        ("77", "found", five),
        ("500", "found", ""),
        ("12,345", "not found", ""),
    ]
    assert run.to_output_dict()["numbers"][0] == {
        "text": "18,204",
        "start": 0,
        "trace": "found",
        "source": rows,
        "line": 2,
        "formula": "",
    }
    assert Run.from_dict(run.to_dict()).numbers == run.numbers
    assert lab.session.journal.run(run.id).numbers == run.numbers


def test_what_the_model_read_and_derived_in_earlier_turns_counts_too(lab: Lab) -> None:
    first = "Gentoos have 5,076 g, Adelies 3,701 g: 1,375 g less. In all 9,999."
    run = lab.run([measured("mass"), first], "How much? I guess 4321.", tools=[measure])
    assert describe_all(run) == {"5,076": "4", "3,701": "3", "1,375": "5,076 - 3,701", "9,999": "?"}
    again = lab.run(["As said 1,375 g, of 5,076 g; not 4,321 g, and 9,999."], "Again?")
    assert describe_all(again) == {"1,375": "1", "5,076": "4", "4,321": "1", "9,999": "?"}
    assert again.numbers[1].source == run.executions[0].call.id


def test_a_short_number_of_an_earlier_turn_takes_words_around_it() -> None:
    answer = "On Torgersen island there are 52. Dream has 124, or 5,076."
    traced = trace_numbers(answer, [], [("1", "Torgersen island 52\nBiscoe 124, 5076")])
    assert [each.trace for each in traced] == ["found", "not found", "found"]


def describe_all(run: Run) -> dict[str, str]:
    return {each.text: each.formula or str(each.line or "?") for each in run.numbers}


def test_numbers_are_not_looked_up_where_that_is_off(lab: Lab) -> None:
    assert lab.run(["It is 12,345."], numbers="off").numbers == ()


def test_the_model_is_asked_once_to_check_numbers_that_are_in_no_result(lab: Lab) -> None:
    replies = ["It is 12,345.", "I guess 54,321.", "Never said."]
    run = lab.run(replies, numbers="ask")
    assert run.output == "I guess 54,321."
    assert [each.trace for each in run.numbers] == ["not found"]
    assert lab.client is not None
    asked = lab.client.requests[1].messages[-1].text
    assert "in no result that you have read: 12,345." in asked


@pytest.mark.parametrize(
    ("replies", "mode"),
    [
        (["It is 12,345."], "show"),
        ([measured("rows"), "It has 18,204 rows."], "ask"),
    ],
)
def test_the_model_is_not_asked_otherwise(lab: Lab, replies: list[Any], mode: str) -> None:
    run = lab.run(replies, tools=[measure], numbers=mode)
    assert len(run.steps) == len(replies)


@pytest.mark.slow
def test_planted_mistakes_are_flagged_and_honest_numbers_are_not() -> None:
    score = SimpleNamespace(**runpy.run_path(str(SCORE)))
    folders = ("", "held_out", "held_out_2", "held_out_3")
    answers = [each for name in folders for each in score.read_answers(score.HERE / name)]
    assert len(answers) >= 200
    scored = score.score_all(answers, seeds=2)
    assert scored.share("missed", "seeded", "by chance in a result") <= 0.05
    assert scored.share("alarms") <= 0.03
    assert scored.share("sources") <= 0.01


def test_a_number_of_thousands_of_digits_is_read_too() -> None:
    (number,) = trace_numbers("It is 12,345.", [("1", f"2 ** 20_000 is {'9' * 6_021}")])
    assert number.trace == "not found"
