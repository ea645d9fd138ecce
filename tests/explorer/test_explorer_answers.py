"""What the explorer understands: the numbers in its answers, from code that was really run.

The expected numbers were computed apart from the explorer.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import matplotlib as mpl
import pandas as pd
import pytest
from explorer_runner import Kernel
from matplotlib import pyplot as plt

PENGUINS = Path(__file__).parents[2] / "notebooks" / "data" / "penguins.csv"

FILES = [
    ("List files", "data/penguins.csv"),
    ("show files", "data/penguins.csv"),
    ("What files are there?", "notes.md"),
    ("Can you list the files in data?", "data/penguins.csv"),
    ("what's in this folder?", "notes.md"),
    ("csv files", "data/penguins.csv"),
    ("read notes.md", "# Notes"),
    ("Show `data/penguins.csv`", "first 10 lines", "Adelie,Torgersen,39.1"),
    ("show the first 3 lines of data/penguins.csv", "first 3 lines"),
    ("What variables are there?", "penguins: DataFrame, 344 rows"),
    ("list variables", "penguins: DataFrame"),
    ("what is x", "x: int = 3"),
    ("inspect penguins", "body_mass_g"),
    ("Load data/penguins.csv as birds", "`birds`", "344 rows, 8 columns"),
    ("please load data/penguins.csv into birds", "`birds`", "344 rows, 8 columns"),
]

SHAPE = [
    ("How many rows are there?", "**344 rows**"),
    ("how many penguins are there", "**344 rows**"),
    ("What is the shape of penguins?", "**344 rows**", "**8 columns**"),
    ("How big is the dataset?", "**344 rows**"),
    ("how many columns", "**8 columns**"),
    ("What columns does penguins have?", "| `sex` | str |"),
    ("columns and types", "| `body_mass_g` | float64 |"),
    ("What does the penguins data look like?", "first 5 rows", "Torgersen"),
    ("show the first 3 rows", "first 3 rows", "39.1"),
    ("last 4 rows of penguins", "last 4 rows", "Chinstrap"),
    ("Show penguins with bill length greater than 55", "5 of 344 rows"),
    ("show rows where sex is male", "168 of 344 rows"),
    ("penguins with body mass above 6000 g", "2 of 344 rows", "6300"),
]

QUALITY = [
    ("Profile penguins", "344 rows, 8 columns, no duplicate rows", "`sex` (11, 3.2 %)",
     "`body_mass_g` and `flipper_length_mm` (0.87)", "| 2700 | 4050 | 6300 | 0 |"),
    ("give me an overview of the data", "344 rows, 8 columns"),
    ("Missing values in `penguins`", "19 missing values", "| `sex` | 11 | 3.2 % |"),
    ("Are there any missing values?", "19 missing values"),
    ("which columns have missing values?", "5 of 8 columns"),
    ("how many missing values in sex", "11 missing values"),
    ("missing body mass", "**2 missing values**"),
    ("how many rows have missing values", "**11 of 344 rows**"),
    ("Which rows have missing data?", "11 of 344 rows"),
    ("rows where body mass is missing", "2 of 344 rows", "`body_mass_g`"),
    ("penguins with missing sex", "**11 missing values** in 344 rows"),
    ("How many rows are missing the sex?", "11 of 344 rows"),
    ("any duplicates?", "No duplicate rows"),
    ("how many duplicate rows", "No duplicate rows"),
    ("outliers in body mass", "No outliers", "| `body_mass_g` | 0 | 0 | 1750 | 6550 |"),
    ("are there outliers", "No outliers"),
    ("outliers in bill_length_mm by z-score", "| `bill_length_mm` | 0 |"),
]  # fmt: skip

STATISTICS = [
    ("mean of body_mass_g", "**4201.75** (342 values"),
    ("What is the average body mass?", "**4201.75**"),
    ("median bill length", "**44.45**"),
    ("Bill Depth (mm) mean", "**17.15**"),
    ("standard deviation of flipper length", "**14.06**"),
    ("variance of bill depth", "**3.9**"),
    ("maximum body mass", "**6300**"),
    ("min and max of body mass", "| minimum | 2700 |", "| maximum | 6300 |"),
    ("range of bill depth", "13.10", "21.50"),
    ("What's the total body mass of all penguins?", "**1,437,000**"),
    ("skewness of body mass", "**0.4703**"),
    ("mean bill length and bill depth", "| mean | 43.92 | 17.15 |"),
    ("most common species", "**Adelie** (152 times"),
    ("Which island is most common?", "**Biscoe** (168 times"),
    ("which species is most common on Dream", "**Chinstrap** (68 times"),
    ("90th percentile of body mass", "**5400**"),
    ("0.25 quantile of bill length", "**39.23**"),
    ("quartiles of body mass", "3550", "4050", "4750"),
    ("95th percentile of flipper length", "**225**"),
    ("90th percentile of body mass for Adelie", "**4300**"),
    ("describe body mass", "| standard deviation | 801.95 |", "| median | 4050 |"),
    ("summary statistics", "43.92", "17.15", "200.92", "4201.75"),
    ("average body mass of male penguins", "**4545.68** (168 values"),
    ("mean flipper length where species is Adelie", "**189.95** (151 values"),
    ("mean flipper length for island = Torgersen", "**191.20** (51 values"),
    ("What's the average flipper length of Gentoo penguins?", "**217.19** (123 values"),
    ("mean body mass for female Gentoo penguins", "**4679.74** (58 values"),
    ("mean bill length where body_mass_g > 4000", "**46.53**"),
    ("average body mass for penguins with flipper length over 200", "**4915.20**"),
    ("mean body mass of penguins with flipper length between 190 and 200", "**3780.98** (117"),
    ("average body mass in 2008", "**4266.67** (114 values"),
    ("maximum bill length among Gentoo", "**59.60**"),
    ("median body mass rounded to the nearest integer", "**4050**"),
    ("mean body mass, rounded to 1 decimal", "**4201.8**"),
    ("average body mass of penguins on Biscoe rounded to 3 decimals", "**4716.018**"),
]

COUNTS = [
    ("how many penguins per species", "| Adelie | 152 | 44.2 % |", "| Chinstrap | 68 | 19.8 % |"),
    ("count by species", "| Gentoo | 124 | 36.0 % |"),
    ("How many penguins are there on each island?", "| Dream | 124 | 36.0 % |"),
    ("number of penguins by island and species", "| Dream | Chinstrap | 68 | 19.8 % |"),
    ("value counts of sex", "2 different values and missing ones", "| (missing) | 11 | 3.2 % |"),
    ("share of each species", "| Adelie | 152 | 44.2 % |"),
    ("percentage of penguins per sex", "| male | 168 | 48.8 % |"),
    ("how many penguins are female", "**165** of 344 rows"),
    ("how many Adelie penguins are on Torgersen?", "**52** of 344 rows"),
    ("How many female Chinstrap penguins are there?", "**34** of 344 rows"),
    ("How many penguins live on Dream?", "**124** of 344 rows"),
    ("How many penguins have a body mass above 5000 g?", "**61** of 344 rows"),
    ("how many penguins have body mass at least 5,000", "**67** of 344 rows"),
    ("How many penguins have flipper length of at least 210 mm?", "**114** of 344 rows"),
    ("how many penguins where flipper_length_mm < 180", "**8** of 344 rows"),
    ("what percentage of penguins are Gentoo", "**36.0 %** (124 of 344 rows"),
    ("how many species are there", "3 different values"),
    ("How many different islands are there?", "3 different values"),
    ("unique values of island", "| Biscoe | 168 |"),
    ("List the unique species", "3 different values"),
    ("how many islands have Adelie", "**3** different `island`, in **152** of 344 rows"),
    ("species in 2007", "| Adelie | 50 | 45.5 % |"),
    ("count species by island", "| Dream | Chinstrap | 68 | 19.8 % |"),
    ("species by island", "| Torgersen | Adelie | 52 | 15.1 % |"),
    ("penguins per island", "| Biscoe | 168 | 48.8 % |"),
    ("top 2 species", "| Gentoo | 124 |", "2 most frequent of 3"),
]

GROUPS = [
    ("mean body mass by species", "| Gentoo | 5076.02 | 123 |", "| Adelie | 3700.66 | 151 |"),
    ("average body mass per species and sex", "| Gentoo | male | 5484.84 | 61 |",
     "| Adelie | (missing) | 3540.00 | 5 |"),
    ("What is the mean bill depth for each species?", "| Chinstrap | 18.42 | 68 |"),
    ("max bill length by island", "| Biscoe | 59.60 | 167 |"),
    ("Show the average body mass by island and sex", "| Biscoe | male | 5104.52 | 83 |"),
    ("What is the standard deviation of body mass per species?", "| Gentoo | 504.12 | 123 |"),
    ("mean body mass by year", "| 2008 | 4266.67 | 114 |"),
    ("mean body mass by species on Dream", "| Chinstrap | 3733.09 | 68 |"),
    ("median body mass by sex rounded to 0 decimals", "| male | 4300 | 168 |"),
    ("summary of body mass by species", "| Gentoo | 123 | 5076.02 | 504.12 |"),
    ("body mass by island", "| Torgersen | 51 | 3706.37 |"),
    ("Which species has the highest mean body mass?", "**Gentoo** has the highest", "**5076.02**"),
    ("Which island has the lowest median body mass?", "**Dream** has the lowest", "**3687.50**"),
    ("Which sex has the higher mean body mass?", "**male** has the highest", "**4545.68**"),
    ("highest mean flipper length by species", "**Gentoo** has the highest", "**217.19**"),
    ("top 2 species by mean bill length", "| Chinstrap | 48.83 | 68 |", "The 2 `species`"),
    ("The two species with the highest mean bill length", "| Gentoo | 47.50 | 123 |"),
    ("top 3 penguins by body mass", "3 rows", "6300", "6050", "6000"),
    ("5 largest body mass", "5 rows with the highest", "6300"),
]  # fmt: skip

RELATIONS = [
    ("correlation between bill length and bill depth", "**-0.235**", "342 rows"),
    ("spearman correlation of bill length and bill depth", "**-0.222**"),
    ("Correlation of bill_depth_mm with body_mass_g for Gentoo", "**0.719**", "123 rows"),
    ("are flipper length and body mass correlated?", "**0.871** (strong, positive"),
    ("How strongly are bill length and body mass correlated?", "**0.595**"),
    ("correlation matrix", "| `bill_depth_mm` | -0.24 | 1.00 | -0.58 | -0.47 | -0.06 |"),
    ("what correlates with body mass?", "| `flipper_length_mm` | 0.871 |"),
    ("what correlates with body mass using spearman", "| `flipper_length_mm` | 0.840 |"),
    ("compare body mass between male and female", "**male has the higher mean", "683.41"),
    ("Compare the body mass of Adelie and Chinstrap penguins", "**Chinstrap has", "32.43"),
    ("difference in flipper length between Adelie and Gentoo", "**Gentoo has", "27.23"),
    ("compare body mass by species", "| Gentoo | 5076.02 | 5000 | 504.12 | 123 |"),
    ("compare body mass between species", "| Gentoo | 5076.02 |"),
    ("add a column bill_ratio = bill_length_mm / bill_depth_mm", "`bill_ratio`", "2.606"),
    ("Add column mass_kg = body_mass_g / 1000", "`mass_kg`", "mean 4.202"),
    ("Create a new column gap as bill length minus bill depth", "`gap`", "26.77"),
    ("add a column called both = sum of bill length and bill depth", "`both`", "61.07"),
]

PLOTS = [
    ("histogram of body mass", "342 values", "median 4050"),
    ("Draw a histogram of bill length", "median 44.45"),
    ("Show me the distribution of body mass for each species", "| Gentoo | 123 | 5000 |"),
    ("plot body mass", "Histogram of `body_mass_g`"),
    ("bar chart of species", "| Adelie | 152 |"),
    ("plot species", "| Gentoo | 124 |"),
    ("Make a bar chart of the number of penguins per species", "| Chinstrap | 68 |"),
    ("plot mean body mass by species", "| Gentoo | 5076.02 |"),
    ("Plot `body_mass_g` by `species`", "Box plot", "| Gentoo | 123 | 5000 |"),
    ("histogram of flipper length by sex", "| female | 165 | 193.00 |", "| male | 168 | 200.50 |"),
    ("scatter plot of body mass and bill length coloured by sex", "333 points"),
    ("box plot of flipper length by island", "| Biscoe | 167 | 214 |"),
    ("plot bill_length_mm against body_mass_g coloured by species", "342 points", "0.60"),
    ("Scatter plot of body mass and bill length, coloured by species", "correlation 0.60"),
    ("plot body mass vs flipper length for Gentoo", "123 points", "0.70"),
    ("line plot of body mass over year", "344 rows"),
]

UNDERSTOOD = [
    *FILES, *SHAPE, *QUALITY, *STATISTICS, *COUNTS, *GROUPS, *RELATIONS, *PLOTS,
]  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    shutil.copy(PENGUINS, tmp_path / "data")
    (tmp_path / "notes.md").write_text("# Notes\n")
    return tmp_path


@pytest.fixture
def kernel(root: Path):
    mpl.use("Agg")
    yield Kernel(root, penguins=pd.read_csv(PENGUINS), x=3)
    plt.close("all")


def failures(kernel: Kernel, case: tuple[str, ...]) -> list[str]:
    """What is wrong with an answer, its code, or what it leaves behind."""
    prompt, *expected = case
    plt.close("all")
    kernel.code.clear()
    before = {name: id(value) for name, value in kernel.namespace.items()}
    answer = kernel.ask(prompt).text
    wrong = [f"{part!r} is not in {answer[:200]!r}" for part in expected if part not in answer]
    wrong += ["the code is long"] * any(len(c.strip().splitlines()) > 18 for c in kernel.code)
    changed = [n for n, i in before.items() if n not in SETUP and id(kernel.namespace[n]) != i]
    added = {n for n in kernel.namespace if n not in before} - SETUP
    wrong += [f"it leaves {[*changed, *added]}"] * bool(changed or added)
    if case in PLOTS:
        axes = [a for n in plt.get_fignums() for a in plt.figure(n).axes]
        if len(axes) != 1 or not (axes[0].get_ylabel() and axes[0].get_title()):
            wrong.append("there is no figure with labels")
    return wrong


SETUP = {"birds", "pd", "plt", "stats", "__builtins__"}


def test_the_numbers_are_right_the_code_is_short_and_nothing_is_left_behind(kernel: Kernel) -> None:
    table = kernel.namespace["penguins"]
    found: dict[str, list[str]] = {}
    for case in UNDERSTOOD:
        kernel.namespace["penguins"] = table.copy()
        kernel.namespace.pop("birds", None)
        if wrong := failures(kernel, case):
            found[case[0]] = wrong
    assert found == {}


def test_counts_have_separators_and_years_have_none(tmp_path: Path) -> None:
    gaps = [None] * 1_200 + [1.0] * 1_500
    kernel = Kernel(tmp_path, trips=pd.DataFrame({"year": [2007] * 2_700, "km": gaps}))
    answers = {
        "How many rows are there?": "**2,700 rows**",
        "Profile trips": "2,700 rows, 2 columns, 2,698 duplicate rows",
        "Missing values in trips": "**1,200 missing values** in 1 of 2 columns of trips (2,700",
        "highest year": "2007",
    }
    for prompt, part in answers.items():
        assert part in kernel.ask(prompt).text.replace("`", ""), prompt


def test_names_that_are_taken_are_left_alone(kernel: Kernel) -> None:
    mine = {"groups": 1, "profile": 2, "name": 3, "group": 4, "outliers": 5}
    kernel.namespace |= mine
    kernel.ask("profile penguins")
    kernel.ask("outliers in body mass")
    kernel.ask("box plot of body mass by species")
    assert {name: kernel.namespace[name] for name in mine} == mine


def test_an_answer_leaves_no_table_that_the_next_prompt_could_mean(kernel: Kernel) -> None:
    for prompt in ("profile", "plot body mass by species", "mean body mass by sex", "plot species"):
        kernel.ask(prompt)
    assert "**4201.75** (342 values in `penguins`)" in kernel.ask("mean body mass").text
