"""Write questions.json: questions about tests/explorer/data, with answers by pandas and scipy.

Nothing here uses the explorer. Each question has the shape in which people hand such tasks on:
the question, constraints, the form of the answer, the file; or only the question.

    python benchmarks/explorer/write_questions.py
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from by_hand import BY_HAND
from scipy import stats
from tables import TABLES, TableWords

DATA = Path(__file__).parents[2] / "tests" / "explorer" / "data"
HERE = Path(__file__).parent
DIGITS = ["two decimal places", "2 decimal places", "two decimals", "2 decimals"]
THREE = ["three decimal places", "3 decimal places", "3 decimals"]
FOUR = ["four decimal places", "4 decimal places", "4 decimals"]

Slots = list[tuple[str, str, Any]]  # name, placeholder, value


class Writer:
    """Writes the questions about one table, in voices chosen by a seeded generator."""

    def __init__(self, table: TableWords, seed: int) -> None:
        self.table, self.rng = table, random.Random(seed)
        self.frame = pd.read_csv(DATA / table.file)
        self.entity = table.entity

    def number(self) -> tuple[str, str]:
        """A numeric column and a name that people use for it."""
        column = self.rng.choice(self.table.numbers)
        return column, self.rng.choice(self.table.spoken[column])

    def two_numbers(self) -> tuple[tuple[str, str], tuple[str, str]]:
        one, other = self.rng.sample(self.table.numbers, 2)
        pick = self.rng.choice
        return (one, pick(self.table.spoken[one])), (other, pick(self.table.spoken[other]))

    def pick(self, *voices: str, **words: Any) -> str:
        return self.rng.choice(voices).format(entity=self.entity, **words)

    def question(
        self, kind: str, text: str, slots: Slots, digits: int = 2, constraints: str = ""
    ) -> dict[str, Any]:
        if self.rng.random() < 0.25 and not constraints and len(slots) == 1:
            mention = self.rng.choice(
                ["", f" (in {self.table.file})", f" The file is “{self.table.file}”."]
            )
            expected = [[None, slots[0][2]]]
            return dict(
                kind=kind,
                table=self.table.file,
                question=text + mention,
                expected=expected,
                digits=None,
            )
        places = self.rng.choice({2: DIGITS, 3: THREE, 4: FOUR}[digits])
        numeric = [s for s in slots if isinstance(s[2], float)]
        limits = [constraints] if constraints else []
        form = self.form(slots, places)
        if numeric and self.rng.random() < 0.5:
            limits.append(
                self.pick(
                    "Round to {places}.",
                    "Round the answer to {places}.",
                    "Rounding off the result to {places}.",
                    "Report your result rounded to {places}.",
                    places=places,
                )
            )
        labels = self.rng.choice(
            [
                ("Question: ", "Constraints: ", "Format: ", "File: "),
                ("", "", "", ""),
                ("", "Constraints: ", "Answer format: ", "File name: "),
            ]
        )
        parts = [
            labels[0] + text,
            labels[1] + " ".join(limits) if limits else "",
            labels[2] + form,
            labels[3] + self.table.file,
        ]
        return dict(
            kind=kind,
            table=self.table.file,
            question=self.rng.choice(["\n", "\n\n"]).join(filter(None, parts)),
            expected=[[name, value] for name, _, value in slots],
            digits=digits,
        )

    def form(self, slots: Slots, places: str) -> str:
        shapes = " ".join(f"@{name}[{held}]" for name, held, _ in slots)
        if self.rng.random() < 0.4:
            shapes = "\n".join(f"@{name}[{held}]" for name, held, _ in slots)
        said = [self.describe(held, value, places) for _, held, value in slots]
        joiner = self.rng.choice([" ", "\n"])
        return shapes + joiner + joiner.join(said)

    def describe(self, held: str, value: Any, places: str) -> str:
        quoted = self.rng.choice(['"{}"', "'{}'", "{}"]).format(held)
        if isinstance(value, float):
            return self.pick(
                "where {held} is a number rounded to {places}.",
                "where {held} is a floating-point number rounded to {places}.",
                "{held} should be a float, rounded to {places}.",
                held=quoted,
                places=places,
            )
        if isinstance(value, int):
            return self.pick(
                "where {held} is an integer.",
                "{held} is a non-negative integer.",
                "where {held} is a whole number.",
                held=quoted,
            )
        return self.pick(
            "where {held} is a string.", "{held} is the name as it stands in the file.", held=quoted
        )


def f(value: Any) -> float:
    return float(value)


STATS: dict[str, tuple[list[str], Callable[[pd.Series], float]]] = {
    "mean": (["mean", "average"], lambda s: s.mean()),
    "median": (["median"], lambda s: s.median()),
    "std": (["standard deviation", "std"], lambda s: s.std()),
    "max": (["maximum", "highest", "largest"], lambda s: s.max()),
    "min": (["minimum", "lowest", "smallest"], lambda s: s.min()),
    "sum": (["total", "sum"], lambda s: s.sum()),
    "var": (["variance"], lambda s: s.var()),
}


def one_statistic(w: Writer) -> Iterator[dict[str, Any]]:
    column, said = w.number()
    stat = w.rng.choice(list(STATS))
    word = w.rng.choice(STATS[stat][0])
    text = w.pick(
        "Calculate the {word} {said} of the {entity}.",
        "What is the {word} of the {said} column?",
        'Find the {word} value of the "{column}" column.',
        "What is the {word} {said} in the dataset?",
        "Compute the {word} of {said} across all {entity}.",
        "I'd like to know the {word} {said}.",
        "Determine the {word} of the column named {column}.",
        "What's the {word} {said} for the {entity} in this file?",
        "{upper} of {said}, please.",
        word=word,
        said=said,
        column=column,
        upper=word.capitalize(),
    )
    yield w.question(
        "statistic",
        text,
        [
            (
                f"{stat}_{said.split()[-1].lower()}",
                f"{stat}_value",
                f(STATS[stat][1](w.frame[column])),
            )
        ],
    )


def two_statistics(w: Writer) -> Iterator[dict[str, Any]]:
    column, said = w.number()
    text = w.pick(
        "Calculate the mean and standard deviation of the {said} column.",
        "What are the mean and the standard deviation of {said}?",
        "Find the average {said} of the {entity} and its standard deviation.",
        'Compute the mean and std of "{column}".',
        said=said,
        column=column,
    )
    values = w.frame[column]
    yield w.question(
        "two statistics",
        text,
        [("mean", "mean_value", f(values.mean())), ("std_dev", "std_dev", f(values.std()))],
    )


def filtered(w: Writer) -> Iterator[dict[str, Any]]:
    if len(w.table.numbers) < 2:
        return
    (a, said_a), (b, said_b) = w.two_numbers()
    limit = round(float(w.frame[b].quantile(w.rng.choice([0.3, 0.5, 0.6]))), 1)
    rows = w.frame[w.frame[b] > limit]
    if w.rng.random() < 0.5:
        text = w.pick(
            "What is the mean {a} of the {entity} with {b} greater than {limit}?",
            "Calculate the average {a} where {b} is above {limit}.",
            "For {entity} whose {b} exceeds {limit}, what is the average {a}?",
            "Average {a} among {entity} that have a {b} over {limit}?",
            a=said_a,
            b=said_b,
            limit=limit,
        )
        constraint = ""
    else:
        text = w.pick(
            "Calculate the mean {a} of the {entity}.", "What is the average {a}?", a=said_a
        )
        constraint = w.pick(
            "Only consider {entity} with {b} greater than {limit}.",
            "Only include rows where {b} is greater than {limit}.",
            "Consider only the {entity} whose {b} is more than {limit}.",
            "Use only the rows in which the {b} is above {limit}.",
            b=said_b,
            limit=limit,
        )
    yield w.question(
        "filter", text, [("mean", "mean_value", f(rows[a].mean()))], constraints=constraint
    )


def by_value(w: Writer) -> Iterator[dict[str, Any]]:
    if not w.table.texts:
        return
    column, said = w.number()
    key = w.rng.choice(w.table.texts)
    value = w.rng.choice(list(w.frame[key].dropna().unique())[:8])
    rows = w.frame[w.frame[key] == value]
    text = w.pick(
        "What is the median {said} of the {entity} where {key} is {value}?",
        "Calculate the median {said} for {value}.",
        'Considering only {entity} whose {key} is "{value}", compute the median of {said}.',
        "Median {said} for {key} = {value}?",
        said=said,
        key=w.rng.choice(w.table.spoken[key]),
        value=value,
    )
    yield w.question("value", text, [("median", "median_value", f(rows[column].median()))])


def counting(w: Writer) -> Iterator[dict[str, Any]]:
    column, said = w.number()
    low, high = (round(float(w.frame[column].quantile(q)), 1) for q in (0.25, 0.7))
    rows = w.frame[w.frame[column].between(low, high)]
    text = w.pick(
        "How many {entity} have a {said} between {low} and {high}?",
        "Count the rows in which {said} lies between {low} and {high} (inclusive).",
        "What is the number of {entity} with {said} between {low} and {high}?",
        said=said,
        low=low,
        high=high,
    )
    yield w.question("count", text, [("count", "count", len(rows))])
    rows = w.frame[w.frame[column] > high]
    text = w.pick(
        "How many {entity} have {said} greater than {high}?",
        "Count the {entity} with a {said} of more than {high}.",
        "In how many rows is {said} above {high}?",
        said=said,
        high=high,
    )
    yield w.question("count", text, [("n", "number", len(rows))])


def share(w: Writer) -> Iterator[dict[str, Any]]:
    if not w.table.texts:
        return
    key = w.rng.choice(w.table.texts)
    value = w.rng.choice(list(w.frame[key].dropna().unique())[:8])
    text = w.pick(
        "What percentage of the {entity} have {key} equal to {value}?",
        "What is the percentage of rows where {key} is {value}?",
        "What percent of {entity} are {value}?",
        key=w.rng.choice(w.table.spoken[key]),
        value=value,
    )
    yield w.question(
        "share", text, [("percentage", "percentage", f(100 * (w.frame[key] == value).mean()))]
    )


def grouping(w: Writer) -> Iterator[dict[str, Any]]:
    if not w.table.texts:
        return
    column, said = w.number()
    key = w.rng.choice(w.table.texts)
    means = w.frame.groupby(key)[column].mean()
    if means.max() == means.nlargest(2).iloc[-1] or means.min() == means.nsmallest(2).iloc[-1]:
        return
    spoken = w.rng.choice(w.table.spoken[key])
    text = w.pick(
        "Which {key} has the highest average {said}?",
        "Group the {entity} by {key} and find the {key} with the highest mean {said}.",
        "Find the {key} with the largest mean {said}, and report the mean.",
        said=said,
        key=spoken,
    )
    slots: Slots = [("group", "group_name", str(means.idxmax()))]
    if "report" in text:
        slots.append(("mean", "mean_value", f(means.max())))
    yield w.question("group", text, slots)
    value = w.rng.choice(list(means.index)[:6])
    text = w.pick(
        "Calculate the mean {said} for each {key}. Give the one of {value}.",
        "What is the mean {said} in the {value} {key}?",
        said=said,
        key=spoken,
        value=value,
    )
    yield w.question("group", text, [("mean", "mean_value", f(means[value]))])


def distinct(w: Writer) -> Iterator[dict[str, Any]]:
    if not w.table.texts:
        return
    key = w.rng.choice(w.table.texts)
    spoken = w.rng.choice(w.table.spoken[key])
    text = w.pick(
        "How many unique values does the {key} column have?",
        "How many different {key} values are there in the file?",
        "Count the distinct values of {key}.",
        key=spoken,
    )
    yield w.question("distinct", text, [("unique", "count", int(w.frame[key].nunique()))])
    counts = w.frame[key].value_counts()
    if len(counts) > 1 and counts.iloc[0] > counts.iloc[1]:
        text = w.pick(
            "What is the most common {key}?",
            "Which {key} occurs most often?",
            "Find the most frequent value in the {key} column and how often it occurs.",
            key=spoken,
        )
        slots: Slots = [("most_common", "value", str(counts.index[0]))]
        if "how often" in text:
            slots.append(("frequency", "count", int(counts.iloc[0])))
        yield w.question("distinct", text, slots)


def missing(w: Writer) -> Iterator[dict[str, Any]]:
    column, said = w.number()
    text = w.pick(
        "How many missing values are there in the {said} column?",
        "Count the null values in {said}.",
        "How many {entity} have no {said} recorded?",
        said=said,
    )
    yield w.question("missing", text, [("missing", "count", int(w.frame[column].isna().sum()))])
    gaps = w.frame.isna().sum()
    if (gaps == gaps.max()).sum() == 1:
        text = w.pick(
            "Which column has the most missing values?",
            "Identify the column with the highest number of missing values.",
        )
        yield w.question("missing", text, [("column", "column_name", str(gaps.idxmax()))])


def correlation(w: Writer) -> Iterator[dict[str, Any]]:
    if len(w.table.numbers) < 2:
        return
    (a, said_a), (b, said_b) = w.two_numbers()
    points = w.frame[[a, b]].dropna()
    method = w.rng.choice(["pearson", "pearson", "spearman"])
    test = {"pearson": stats.pearsonr, "spearman": stats.spearmanr}[method]
    r, p = test(points[a], points[b])
    name = method.capitalize()
    text = w.pick(
        "Calculate the {name} correlation coefficient between {a} and {b}.",
        "What is the {name} correlation between the {a} column and the {b} column?",
        "How strongly are {a} and {b} correlated ({name})?",
        "Is there a correlation between the {entity}'s {a} and their {b}? Use {name}'s coefficient.",
        name=name,
        a=said_a,
        b=said_b,
    )
    yield w.question("correlation", text, [("correlation", "r_value", f(r))])
    text = w.pick(
        "Compute the {name} correlation between {a} and {b}, and its p-value.",
        "Calculate the {name} correlation coefficient and the corresponding p-value for {a} and {b}.",
        name=name,
        a=said_a,
        b=said_b,
    )
    yield w.question(
        "correlation p",
        text,
        [("correlation_coefficient", "r_value", f(r)), ("p_value", "p_value", f(p))],
        digits=4,
    )


def normality(w: Writer) -> Iterator[dict[str, Any]]:
    column, said = w.number()
    values = w.frame[column].dropna()
    result = stats.shapiro(values)
    text = w.pick(
        "Is the {said} column normally distributed?",
        "Check whether {said} follows a normal distribution.",
        "Test the {said} of the {entity} for normality.",
        "Does the distribution of {said} adhere to a normal distribution?",
        said=said,
    )
    constraint = w.pick(
        "Use the Shapiro-Wilk test with a significance level of 0.05.",
        "Perform a Shapiro-Wilk test. If the p-value is less than 0.05, the data is not normally distributed.",
        "Use the Shapiro-Wilk test from scipy (alpha = 0.05).",
    )
    slots: Slots = [
        ("is_normal", "answer", "yes" if result.pvalue >= 0.05 else "no"),
        ("p_value", "p", f(result.pvalue)),
    ]
    written = w.question("normality", text, slots, digits=4, constraints=constraint)
    written["question"] = (
        written["question"]
        .replace("answer is the name as it stands in the file.", 'answer is "yes" or "no".')
        .replace("answer is a string.", 'answer is either "yes" or "no".')
        .replace('"answer" is the name as it stands in the file.', '"answer" is "yes" or "no".')
        .replace("'answer' is the name as it stands in the file.", '\'answer\' is "yes" or "no".')
        .replace('"answer" is a string.', '"answer" is "yes" or "no".')
        .replace("'answer' is a string.", '\'answer\' is a string, "yes" or "no".')
    )
    yield written


def shape(w: Writer) -> Iterator[dict[str, Any]]:
    column, said = w.number()
    values = w.frame[column]
    text = w.pick(
        "What is the skewness of the {said} column?",
        "Calculate the skewness of {said} using pandas.",
        "Compute the skewness of the {said} distribution.",
        said=said,
    )
    yield w.question("skew", text, [("skewness", "skewness_value", f(values.skew()))])
    text = w.pick(
        "What is the kurtosis of {said}?", "Calculate the kurtosis of the {said} column.", said=said
    )
    yield w.question("kurtosis", text, [("kurtosis", "kurtosis_value", f(values.kurt()))])


def outliers(w: Writer) -> Iterator[dict[str, Any]]:
    column, said = w.number()
    values = w.frame[column].dropna()
    if w.rng.random() < 0.6:
        q1, q3 = values.quantile([0.25, 0.75])
        far = (values < q1 - 1.5 * (q3 - q1)) | (values > q3 + 1.5 * (q3 - q1))
        text = w.pick(
            "Identify the outliers in the {said} column with the IQR method. How many are there?",
            "How many outliers does {said} have according to the IQR rule?",
            "Count the outliers of {said} by the interquartile range method (1.5 times the IQR).",
            said=said,
        )
    else:
        far = ((values - values.mean()) / values.std()).abs() > 3
        text = w.pick(
            "How many outliers are there in {said}, by z-score (threshold 3)?",
            "Count the {entity} whose {said} is an outlier by the z-score method with a threshold of 3.",
            "Using the z-score method with a threshold of 3, count the outliers in the {said} column.",
            said=said,
        )
    yield w.question("outliers", text, [("outliers", "outlier_count", int(far.sum()))])


def regression(w: Writer) -> Iterator[dict[str, Any]]:
    if len(w.table.numbers) < 2:
        return
    (a, said_a), (b, said_b) = w.two_numbers()
    points = w.frame[[a, b]].dropna()
    fit = stats.linregress(points[a], points[b])
    text = w.pick(
        "Fit a simple linear regression of {b} on {a}. What is the slope?",
        "Perform a linear regression with {a} as the independent variable and {b} as the dependent variable, and report the slope.",
        "Run a linear regression that predicts {b} from {a} and give the slope.",
        a=said_a,
        b=said_b,
    )
    slots: Slots = [("slope", "slope", f(fit.slope))]
    if w.rng.random() < 0.5:
        slots.append(("r_squared", "r2", f(fit.rvalue**2)))
        text = text.replace("the slope", "the slope and R-squared")
    yield w.question("regression", text, slots, digits=4)


def two_groups(w: Writer) -> Iterator[dict[str, Any]]:
    for key in w.table.texts:
        names = list(w.frame[key].dropna().unique())
        if len(names) < 2:
            continue
        one, other = w.rng.sample(names[:6], 2)
        column, said = w.number()
        groups = [w.frame.loc[w.frame[key] == n, column].dropna() for n in (one, other)]
        if min(map(len, groups)) < 3:
            continue
        result = stats.ttest_ind(*groups)
        text = w.pick(
            "Perform an independent t-test on {said} between {one} and {other}.",
            "Is there a significant difference in {said} between {one} and {other}? Use an independent two-sample t-test.",
            "Compare the mean {said} of {one} and {other} with a t-test.",
            said=said,
            one=one,
            other=other,
        )
        yield w.question(
            "t-test",
            text,
            [
                ("t_statistic", "t_stat", f(result.statistic)),
                ("p_value", "p_value", f(result.pvalue)),
            ],
            digits=4,
        )
        return


def independence(w: Writer) -> Iterator[dict[str, Any]]:
    if len(w.table.texts) < 2:
        return
    a, b = w.rng.sample(w.table.texts, 2)
    result = stats.chi2_contingency(pd.crosstab(w.frame[a], w.frame[b]))
    pick = w.rng.choice
    text = w.pick(
        "Perform a chi-squared test of independence between {a} and {b}.",
        "Are {a} and {b} independent? Run a chi-square test.",
        a=pick(w.table.spoken[a]),
        b=pick(w.table.spoken[b]),
    )
    yield w.question(
        "chi-squared",
        text,
        [("chi2", "chi2_value", f(result.statistic)), ("p_value", "p_value", f(result.pvalue))],
        digits=4,
    )


def lookup(w: Writer) -> Iterator[dict[str, Any]]:
    if not w.table.label:
        return
    column, said = w.number()
    values = w.frame[column]
    if (values == values.max()).sum() > 1 or (values == values.min()).sum() > 1:
        return
    end, row = w.rng.choice([("highest", values.idxmax()), ("lowest", values.idxmin())])
    text = w.pick(
        "Which {label} has the {end} {said}?",
        "Find the {label} with the {end} {said}.",
        label=w.rng.choice(w.table.spoken[w.table.label]),
        end=end,
        said=said,
    )
    yield w.question("lookup", text, [("name", "name", str(w.frame.loc[row, w.table.label]))])


KINDS = [
    one_statistic,
    one_statistic,
    two_statistics,
    filtered,
    by_value,
    counting,
    share,
    grouping,
    distinct,
    missing,
    correlation,
    normality,
    shape,
    outliers,
    regression,
    two_groups,
    independence,
    lookup,
]


def by_hand() -> Iterator[dict[str, Any]]:
    for table, text, digits, *slots in BY_HAND:
        frame = pd.read_csv(DATA / table)
        names = {"df": frame, "pd": pd, "stats": stats}
        expected = []
        for name, expression in slots:
            value = eval(expression, names)
            plain = value.item() if hasattr(value, "item") else value
            expected.append([name, plain])
        yield dict(kind="by hand", table=table, question=text, expected=expected, digits=digits)


def all_questions() -> list[dict[str, Any]]:
    """Every question, numbered; the same text is asked once."""
    written: dict[str, dict[str, Any]] = {}
    for number, table in enumerate(TABLES):
        for seed in (number, 100 + number):
            writer = Writer(table, seed)
            for question in (each for kind in KINDS for each in kind(writer)):
                written.setdefault(question["table"] + question["question"], question)
    for question in by_hand():
        written.setdefault(question["table"] + question["question"], question)
    return list(written.values())


if __name__ == "__main__":
    questions = all_questions()
    lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in questions)
    (HERE / "questions.json").write_text(f"[\n{lines}\n]\n")
    print(len(questions), "questions")
