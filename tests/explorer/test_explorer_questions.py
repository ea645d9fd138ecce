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

from ipyagent.explorer.questions.columns import match_loosely

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


def final_form(text: str) -> dict[str, str]:
    """The slots of an answer, which have to be its last lines."""
    last = text.rpartition("\n\n")[2]
    assert all(re.fullmatch(r"@\w+\[[^\]]*\]", line) for line in last.splitlines()), text
    return dict(re.findall(r"@(\w+)\[([^\]]*)\]", last))


@pytest.mark.slow
def test_unseen_questions_are_mostly_answered_and_hardly_ever_wrong() -> None:
    counts: Counter[str] = sum(score.score("held out", every=3).values(), Counter())
    assert counts.total() >= 90
    assert counts["right"] >= 0.4 * counts.total(), counts
    assert counts["wrong"] <= 0.02 * counts.total(), counts


def test_the_judge_tells_right_from_wrong_and_declined() -> None:
    asked = {"expected": [["m", 4201.754]], "digits": 2, "question": "", "table": ""}
    bare = {"expected": [[None, 4201.754]], "digits": None, "question": "", "table": ""}
    assert score.judge(asked, "", "The mean.\n\n@m[4201.75]") == "right"
    assert score.judge(asked, "", "The mean.\n\n@m[4201.7]") == "wrong"
    assert score.judge(asked, "", "@m[4201.75]\n\nThat is all.") == "wrong"
    assert score.judge(bare, "", "It is **4,201.75**.") == "right"
    assert score.judge(bare, "", "It is 4201.75, or **9**.") == "wrong"
    assert score.judge(bare, "Rule: declined: no", "**4201.75**") == "declined"


def test_nothing_in_the_explorer_knows_the_tables_of_the_questions() -> None:
    source = "\n".join(
        path.read_text() for path in (ROOT / "src" / "ipyagent" / "explorer").rglob("*.py")
    ).casefold()
    questions = json.loads((ROOT / "benchmarks" / "explorer" / "questions.json").read_text())
    # The penguins are in the documentation, and so in examples of docstrings.
    others = [each for each in DATA.glob("*.csv") if "penguins" not in each.name]
    columns = {c for each in others for c in pd.read_csv(each, nrows=1).columns}
    special = {c for c in columns if "_" in c or (c.isupper() and len(c) > 8)}
    assert len({each["table"] for each in questions}) >= 15
    assert len(special) > 8
    for name in {each["table"] for each in questions} | special:
        assert not re.search(rf"\b{re.escape(name.casefold())}\b", source), name


PROSE = """\
Question: Calculate the mean body mass of the penguins on Biscoe.
Constraints: Only consider penguins with a flipper length greater than 200. Ignore missing values.
Format: @mean_mass[mean_value] where "mean_value" is a number rounded to two decimal places.
File: Palmer penguins.csv"""


def test_a_whole_prompt_is_read_sentence_by_sentence(kernel: Kernel) -> None:
    rows = FRAME[(FRAME["island"] == "Biscoe") & (FRAME["flipper_length_mm"] > 200)]
    answer = kernel.ask(PROSE)
    assert final_form(answer.text) == {"mean_mass": f"{rows['body_mass_g'].mean():.2f}"}
    assert "where `island = Biscoe` and `flipper_length_mm > 200`" in answer.text
    assert len(kernel.code) == 2  # the file is loaded, the question is answered


def test_a_prompt_of_any_length_is_read(kernel: Kernel) -> None:
    padding = "Round the answer to two decimal places. " * 40
    prompt = PROSE.replace("Constraints: ", f"Constraints: {padding}")
    assert len(prompt) > 1500
    assert final_form(kernel.ask(prompt).text)


@pytest.mark.parametrize(
    "method",
    [
        "Remove outliers first.",
        "Only consider penguins that are not Adelie.",
        "Normalize the data before.",
        "Use the trimmed mean.",
        "Weight the rows by year.",
        "Exclude the year 2008.",
        "Use only the heaviest penguins.",
    ],
)
def test_a_sentence_that_is_not_understood_declines_the_whole(kernel: Kernel, method: str) -> None:
    answer = kernel.ask(PROSE.replace("Ignore missing values.", method))
    assert answer.thinking.startswith("Rule: declined")
    assert "@mean_mass" not in answer.text
    assert all("mean()" not in code for code in kernel.code)


ANSWERS = [
    ("What is the mean of the body mass column?", "**4201.75**"),
    ("I'd like to know the average body mass of all the penguins, please.", "**4201.75**"),
    ("What is the population standard deviation of body mass?", f"**{BODY.std(ddof=0):.2f}**"),
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
     f"**{(((BODY - BODY.mean()) / BODY.std()).abs() > 2).sum()}**"),
    ("What is the body mass median? Consider only penguins whose island is Dream.", "**3687.50**"),
    ("Compute the mean body mass, and the median bill length.", "**4201.75**", "**44.45**"),
    ("Which variable correlates most strongly with body mass?", "`flipper_length_mm`"),
]  # fmt: skip


@pytest.mark.parametrize(("prompt", "expected"), [(c[0], c[1:]) for c in ANSWERS])
def test_a_question_is_answered_with_the_method_said(
    kernel: Kernel, prompt: str, expected: tuple[str, ...]
) -> None:
    text = kernel.ask(f"{prompt} Palmer penguins.csv").text
    assert [each for each in expected if each not in text] == [], text
    assert set(kernel.namespace) <= {"palmer_penguins", "pd", "stats", "json", "__builtins__"}


DECLINED = """
Mean body mass of penguins that are neither Adelie nor Gentoo
What is the mean body mass, weighted by flipper length?
For penguins on Dream or Biscoe, what is the mean body mass?
mean body mass for penguins with body mass greater than the mean
What is the difference of mean body mass and median body mass?
What is the minimum of the maximum body mass?
Is the mean body mass greater than 4000?
Is Adelie the most common species?
What percentage of male penguins have a body mass above 4000?
second highest body mass?
correlation between body mass and flipper length for each species
Compute the mean body mass excluding zeros.
What is the sum of body mass/flipper length?
mean body mass where species != Adelie
How many penguins have no children?
What is the average bill?
Find the mean body mass after removing outliers.
Perform a t-test on body mass between Adelie, Gentoo and Chinstrap.
""".strip().splitlines()


@pytest.mark.parametrize("prompt", DECLINED)
def test_what_would_be_a_guess_is_declined(kernel: Kernel, prompt: str) -> None:
    answer = kernel.ask(f"{prompt}\nPalmer penguins.csv")
    assert answer.thinking.startswith("Rule: declined"), answer.text
    assert "- " in answer.text


def test_a_file_is_looked_at_before_a_word_is_called_unknown(kernel: Kernel) -> None:
    text = kernel.ask("What is the mean blubber of the penguins? File: Palmer penguins.csv").text
    assert "These words are beyond me here: `blubber`." in text
    assert kernel.code[0].startswith("import pandas as pd")


@pytest.mark.parametrize(
    ("prompt", "offer"),
    [
        ("Calculate the mean bodymas of the penguins.", "Calculate the mean `body_mass_g` of"),
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


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ('@normal[x] where x is "yes" or "no"', {"normal": "no"}),
        ("@normal[x], x is either 'normal' or 'not normal'", {"normal": "not normal"}),
        ("@p[p_value]\n@w[statistic]\nRound both to 3 decimals.", {"p": "0.000", "w": "0.959"}),
    ],
)
def test_the_form_of_the_answer_is_kept(
    kernel: Kernel, form: str, expected: dict[str, str]
) -> None:
    prompt = f"Check whether body mass is normally distributed.\n{form}\nPalmer penguins.csv"
    assert final_form(kernel.ask(prompt).text) == expected


@pytest.mark.parametrize(
    "form",
    [
        "@a[x]\n@b[y]",
        '@normal[x] where x is "high" or "low"',
        "@normal[x] where x is a number divided by 1000",
    ],
)
def test_a_form_that_would_be_filled_by_guess_declines_the_whole(kernel: Kernel, form: str) -> None:
    prompt = f"Check whether body mass is normally distributed.\n{form}\nPalmer penguins.csv"
    assert kernel.ask(prompt).thinking.startswith("Rule: declined")


@pytest.mark.parametrize(
    ("run", "column"),
    [
        ("wind speed", "WINDSPEED"),
        ("passenger class", "Pclass"),
        ("gross domestic product", "GDP"),
        ("maximum temperature", "temp_max"),
        ("years employed", "yrs_employed"),
        ("education", "educ"),
        ("miles per hour", "mph"),
        ("room size", "roomSize"),
    ],
)
def test_columns_are_found_as_people_write_them(run: str, column: str) -> None:
    columns = [column, "speedometer", "temp_min", "other"]
    assert match_loosely(tuple(run.split()), columns) == [column]


@pytest.mark.parametrize(
    "run", ["speed", "the wind", "temperature", "class", "other years", "agency"]
)
def test_parts_of_names_and_words_beside_them_are_no_columns(run: str) -> None:
    columns = ["WINDSPEED", "Pclass", "temp_max", "other", "age"]
    assert match_loosely(tuple(run.split()), columns) == []


def test_a_month_and_a_year_are_parts_of_the_only_date(tmp_path: Path) -> None:
    dates = ["2020-01-03", "2020-02-01", "2021-02-02"]
    pd.DataFrame({"date": dates, "sales": [1, 2, 6]}).to_csv(tmp_path / "t.csv", index=False)
    kernel = Kernel(tmp_path)
    assert "**4**" in kernel.ask("What is the mean of sales in February? t.csv").text
    assert "**1.5**" in kernel.ask("What is the mean of sales in 2020? Use t.csv.").text
    assert "**2**: **4**" in kernel.ask("Which month has the highest mean sales? t.csv").text


def test_rows_or_different_values_are_not_guessed(tmp_path: Path) -> None:
    pd.DataFrame({"state": ["a", "a", "b"], "n": [5, 6, 7]}).to_csv(tmp_path / "t.csv", index=False)
    kernel = Kernel(tmp_path)
    text = kernel.ask("How many states have n greater than 4?\n@n[count]\nt.csv").text
    assert text.startswith("**I can't tell which number you mean:** 3 rows")
    text = kernel.ask("How many states have n greater than 5?\n@n[count]\nt.csv").text
    assert final_form(text) == {"n": "2"}


def test_a_column_named_twice_is_declined(kernel: Kernel) -> None:
    prompt = "Correlation between body mass and body mass. Palmer penguins.csv"
    assert kernel.ask(prompt).thinking.startswith("Rule: declined")


def test_a_polars_table_is_asked_in_its_own_way(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, penguins=pl.read_csv(PENGUINS, null_values="NA"))
    prompt = "Calculate the skewness of the body mass column. Only consider rows where sex is male."
    text = kernel.ask(f"{prompt}\n@skew[value]\nvalue has 3 decimals.").text
    assert final_form(text) == {"skew": f"{MALE.skew():.3f}"}
    assert "penguins.filter(" in kernel.code[-1]


def test_a_test_without_scipy_says_what_to_install(kernel: Kernel) -> None:
    run = kernel.run_python

    def without_scipy(code: str) -> str:
        return "Error: No module named 'scipy'" if "scipy" in code else run(code)

    kernel.run_python = without_scipy  # type: ignore[method-assign]
    text = kernel.ask("Test body mass for normality. Palmer penguins.csv").text
    assert "`%pip install scipy`" in text


def test_a_mention_is_no_form_of_an_answer(kernel: Kernel) -> None:
    kernel.ask("Load Palmer penguins.csv")
    text = kernel.ask("Missing values in @Palmer_penguins").text
    assert "I can't answer" not in text
