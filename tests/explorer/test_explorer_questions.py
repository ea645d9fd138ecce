"""Questions in ordinary words: right, or declined with the word named and something to try."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections import Counter
from pathlib import Path

import pandas as pd
import polars as pl
import pytest
from explorer_runner import Kernel
from scipy import stats

from ipyagent.explorer.text import correct, match_loosely

ROOT = Path(__file__).parents[2]
DATA = Path(__file__).parent / "data"
PENGUINS = ROOT / "notebooks" / "data" / "penguins.csv"
sys.path.insert(0, str(ROOT / "benchmarks" / "explorer"))

import score  # noqa: E402

FRAME = pd.read_csv(PENGUINS)
BODY = FRAME["body_mass_g"].dropna()
MALE, FEMALE = (
    FRAME.loc[FRAME["sex"] == sex, "body_mass_g"].dropna() for sex in ("male", "female")
)


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    shutil.copy(PENGUINS, tmp_path / "Palmer penguins.csv")
    return Kernel(tmp_path)


def bad_answers(path: Path, cases: list[tuple[str, ...]]) -> dict[str, str]:
    """Ask each prompt of a new kernel, and return the answers that lack a part."""
    found = {}
    for prompt, *expected in cases:
        text = Kernel(path).ask(prompt).text
        if any(part not in text for part in expected):
            found[prompt] = text[:300]
    return found


@pytest.mark.slow
def test_tables_and_writers_that_nobody_tuned_for() -> None:
    counts = score.score([*score.held_out_questions()])
    total = sum(counts.values(), Counter())
    assert total["wrong"] <= 0.01 * total.total(), total
    assert counts["short"]["right"] >= 0.6 * counts["short"].total(), counts
    assert counts["easy"]["right"] >= 0.4 * counts["easy"].total(), counts


def test_the_questions_to_work_with_are_answered() -> None:
    questions = [*score.questions_to_work_with()][::20]
    total = sum(score.score(questions).values(), Counter())
    assert total["right"] >= 0.8 * total.total(), total
    assert total["wrong"] + total["half"] <= 0.02 * total.total(), total


def test_the_judge_tells_right_from_half_wrong_and_declined(kernel: Kernel) -> None:
    asked = score.Question("", Path(), "", expected=(4201.754, "Adelie"))
    for verdict, thinking, text in [
        ("right", "", "**Adelie** has 4,201.75."),
        ("half", "", "**Adelie** has 4,201.7."),
        ("half", "", "It is 4201.754."),
        ("wrong", "", "It is 4201.5."),
        ("declined", "Rule: declined: no", "Adelie 4201.75"),
    ]:
        assert score.judge(asked, kernel, thinking, text) == verdict.replace("half", "half")


def test_nothing_in_the_explorer_knows_the_tables_of_the_questions() -> None:
    source = "\n".join(
        path.read_text() for path in (ROOT / "src" / "ipyagent" / "explorer").rglob("*.py")
    ).casefold()
    questions = json.loads((ROOT / "benchmarks" / "explorer" / "questions.json").read_text())
    # The penguins are in the documentation, and so in examples of docstrings.
    others = [each for each in DATA.glob("*.csv") if "penguins" not in each.name]
    others += (ROOT / "benchmarks" / "explorer" / "held_out").glob("*.csv")
    columns = {c for each in others for c in pd.read_csv(each, nrows=1).columns}
    special = {c for c in columns if "_" in c or (c.isupper() and len(c) > 8)}
    assert len({each["table"] for each in questions}) >= 15
    assert len(special) > 8
    for name in {each["table"] for each in questions} | special:
        assert not re.search(rf"\b{re.escape(name.casefold())}\b", source), name


PROSE = """\
Question: Calculate the mean body mass of the penguins on Biscoe.
Constraints: Only consider penguins with a flipper length greater than 200. Ignore missing values.
Round to two decimal places.
File: Palmer penguins.csv"""


def test_a_whole_prompt_is_read_sentence_by_sentence(kernel: Kernel) -> None:
    rows = FRAME[(FRAME["island"] == "Biscoe") & (FRAME["flipper_length_mm"] > 200)]
    answer = kernel.ask(PROSE)
    assert f"**{rows['body_mass_g'].mean():.2f}**" in answer.text
    assert "where `island = Biscoe` and `flipper_length_mm > 200`" in answer.text
    assert len(kernel.code) == 1  # the file is loaded and the question answered in one call


def test_a_prompt_of_any_length_is_read(kernel: Kernel) -> None:
    padding = "Round the answer to two decimal places. " * 40
    assert "**" in kernel.ask(PROSE.replace("Constraints: ", f"Constraints: {padding}")).text


METHODS = """
Remove outliers first.
Normalize the data before.
Use the trimmed mean.
Weight the rows by year.
Exclude the year 2008.
Use only the heaviest penguins.
""".strip().splitlines()


def test_a_sentence_that_is_not_understood_declines_the_whole(kernel: Kernel) -> None:
    for method in METHODS:
        answer = kernel.ask(PROSE.replace("Ignore missing values.", method))
        assert answer.thinking.startswith("Rule: declined"), method
    assert kernel.code == []


ANSWERS = [
    ("What is the mean of the body mass column?", "**4201.75**"),
    ("I'd like to know the average body mass of all the penguins, please.", "**4201.75**"),
    ("What is the population standard deviation of body mass?", f"**{BODY.std(ddof=0):.2f}**"),
    ("Mean body mass of penguins that are not Adelie", "**4597.91**"),
    ("For penguins on Dream or Biscoe, what is the mean body mass?", "**4288.57**"),
    ("mean body mass for Adelie and Gentoo", "| Gentoo | 5076.02 | 123 |", "| Adelie | 3700.66"),
    ("What percentage of male penguins have a body mass above 4000?", "**64.9 %** (109 of 168"),
    ("How many species are there on each island?", "| Biscoe | 2 | 168 |"),
    ("How many penguins are there on Dream, and what is their mean body mass?",
     "**124** of 344", "**3712.90**"),
    ("Which column has the most missing values, and how many?", "**`sex`**", "**11** of 344"),
    ("Max body mass and which species?", "**6300**", "`species` **Gentoo**"),
    ("The masses are in grams. What is the mean body mass?", "**4201.75**", "masses are in grams."),
    ("How many penguins have no recorded sex?", "**11** of 344"),
    ("mean mass in grams (body_mass_g) of all penguins", "**4201.75**"),
    ("Standard deviation of body mass, please. Use pandas.", f"**{BODY.std():.2f}**", "ddof=1"),
    ("What is the std of body mass? Use numpy.", f"**{BODY.std(ddof=0):.2f}**", "ddof=0"),
    ("Calculate the kurtosis of body mass.", f"**{BODY.kurt():.4g}**", "as in pandas"),
    ("Calculate the skewness of body mass with scipy.", f"**{stats.skew(BODY):.4g}**", "scipy"),
    ("How many penguins have a body mass between 4000 and 5000?",
     f"**{BODY.between(4000, 5000).sum()}**"),
    ("Is body mass normally distributed? Use the Shapiro-Wilk test.",
     "does not follow", f"**{stats.shapiro(BODY).statistic:.4g}**"),
    ("Test body mass for normality with D'Agostino's K-squared test.",
     f"**{stats.normaltest(BODY).statistic:.4g}**"),
    ("Perform Welch's t-test on body mass between male and female.",
     f"**{stats.ttest_ind(MALE, FEMALE, equal_var=False).statistic:.4g}**", "is significant"),
    ("Run a chi-squared test of independence between species and island.",
     f"**{stats.chi2_contingency(pd.crosstab(FRAME['species'], FRAME['island'])).statistic:.4g}**"),
    ("Fit a linear regression of body mass on flipper length. What is the slope?", "**49.69**"),
    ("Which species has the highest average bill length? Report the mean.", "**Chinstrap**"),
    ("Which column has the most missing values?", "**`sex`**"),
    ("How many outliers are there in body mass, by z-score (threshold 2)?",
     f"**{(((BODY - BODY.mean()) / BODY.std()).abs() > 2).sum()} outliers**"),
    ("What is the body mass median? Consider only penguins whose island is Dream.", "**3687.50**"),
    ("Compute the mean body mass, and the median bill length.", "**4201.75**", "**44.45**"),
    ("Which variable correlates most strongly with body mass?", "`flipper_length_mm`"),
]  # fmt: skip


def test_a_question_is_answered_with_the_method_said(kernel: Kernel) -> None:
    cases = [(f"{prompt} Palmer penguins.csv", *expected) for prompt, *expected in ANSWERS]
    assert bad_answers(kernel.root, cases) == {}


DECLINED = """
Mean body mass of penguins that are neither Adelie nor Gentoo
What is the mean body mass, weighted by flipper length?
mean body mass for penguins with body mass greater than the mean
What is the difference of mean body mass and median body mass?
What is the minimum of the maximum body mass?
Is the mean body mass greater than 4000?
Is Adelie the most common species?
second highest body mass?
correlation between body mass and flipper length for each species
Compute the mean body mass excluding zeros.
What is the sum of body mass/flipper length?
How many penguins have no children?
What is the average bill?
Find the mean body mass after removing outliers.
Perform a t-test on body mass between Adelie, Gentoo and Chinstrap.
""".strip().splitlines()


def test_what_would_be_a_guess_is_declined(kernel: Kernel) -> None:
    found = {}
    for prompt in DECLINED:
        answer = kernel.ask(f"{prompt}\nPalmer penguins.csv")
        if not answer.thinking.startswith("Rule: declined") or "- " not in answer.text:
            found[prompt] = answer.text[:200]
    assert found == {}
    assert kernel.code == []


def test_nothing_is_loaded_for_a_word_that_is_unknown(kernel: Kernel) -> None:
    text = kernel.ask("What is the mean blubber of the penguins? File: Palmer penguins.csv").text
    assert "These words are beyond me here: `blubber`." in text
    assert kernel.code == []


@pytest.mark.parametrize(
    ("prompt", "offer"),
    [
        ("Calculate the mean bodywait of the penguins.", "Calculate the mean `body_mass_g` of"),
        ("What is the average total body mass index?", ""),
        ("What is the mean avian body mass?", "What is the mean body mass?"),
    ],
)
def test_a_near_miss_is_offered_and_the_offer_is_understood(
    kernel: Kernel, prompt: str, offer: str
) -> None:
    text = kernel.ask(f"{prompt} Palmer penguins.csv").text
    offers = re.findall(r"(?m)^- (.*)$", text)
    assert any(each.startswith(offer) for each in offers)
    for each in offers:
        assert not kernel.ask(each).thinking.startswith("Rule: declined"), each


COLUMNS = {
    "wind speed": "WINDSPEED",
    "passenger class": "Pclass",
    "gross domestic product": "GDP",
    "maximum temperature": "temp_max",
    "years employed": "yrs_employed",
    "education": "educ",
    "miles per hour": "mph",
    "room size": "roomSize",
}


def test_columns_are_found_as_people_write_them() -> None:
    for run, column in COLUMNS.items():
        columns = (column, "speedometer", "temp_min", "other")
        assert match_loosely(tuple(run.split()), columns) == [column]


def test_parts_of_names_and_words_beside_them_are_no_columns() -> None:
    columns = ("WINDSPEED", "Pclass", "temp_max", "other", "age")
    for run in ("speed", "the wind", "temperature", "class", "other years", "agency"):
        assert match_loosely(tuple(run.split()), columns) == [], run


def test_a_month_and_a_year_are_parts_of_the_only_date(tmp_path: Path) -> None:
    dates = ["2020-01-03", "2020-02-01", "2021-02-02"]
    pd.DataFrame({"date": dates, "sales": [1, 2, 6]}).to_csv(tmp_path / "t.csv", index=False)
    kernel = Kernel(tmp_path)
    assert "**4** (2" in kernel.ask("What is the mean of sales in February? t.csv").text
    assert "**1.5**" in kernel.ask("What is the mean of sales in 2020? Use t.csv.").text
    assert "**February** has" in kernel.ask("Which month has the highest mean sales? t.csv").text


def test_rows_or_different_values_are_not_guessed(tmp_path: Path) -> None:
    pd.DataFrame({"state": ["a", "a", "b"], "n": [5, 6, 7]}).to_csv(tmp_path / "t.csv", index=False)
    text = Kernel(tmp_path).ask("How many states have n greater than 4?\nt.csv").text
    assert text.startswith("**2** different `state`, in **3** of 3 rows")


def test_a_column_named_twice_is_declined(kernel: Kernel) -> None:
    prompt = "Correlation between body mass and body mass. Palmer penguins.csv"
    assert kernel.ask(prompt).thinking.startswith("Rule: declined")


def test_a_polars_table_is_asked_in_a_copy_that_is_deleted(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, penguins=pl.read_csv(PENGUINS, null_values="NA"))
    prompt = "Calculate the skewness of the body mass column. Only consider rows where sex is male."
    text = kernel.ask(f"{prompt} Round to 3 decimals.").text
    assert f"**{MALE.skew():.3f}**" in text
    assert set(kernel.namespace) <= {"penguins", "pd", "pl", "__builtins__"}


def test_a_test_without_scipy_says_what_to_install(kernel: Kernel) -> None:
    run = kernel.run_python

    def without_scipy(code: str) -> str:
        return "Error: No module named 'scipy'" if "scipy" in code else run(code)

    kernel.run_python = without_scipy
    text = kernel.ask("Test body mass for normality. Palmer penguins.csv").text
    assert "`%pip install scipy`" in text


def test_typing_errors_are_put_right_and_said(kernel: Kernel) -> None:
    text = kernel.ask("averge flippr lenght by speceis Palmer penguins.csv").text
    assert "| Gentoo | 217.19 | 123 |" in text
    assert "I read `averge` as `average`." in text
    assert correct("county", ["country", "count"]) == ["country", "count"]  # so neither is taken
    assert correct("mean", ["men", "means"]) == ["means"]
