"""Measures that describe: statistics, percentiles, counts, shares, missing values, outliers."""

from __future__ import annotations

from collections.abc import Sequence

from ipyagent.explorer.chunks import Token
from ipyagent.explorer.markdown import cell, code, label, number, table
from ipyagent.explorer.names import words
from ipyagent.explorer.questions.measure import Measure, Query, Result, Values
from ipyagent.explorer.snippets import literal, rows
from ipyagent.explorer.steps import MisfitError

TITLES = {
    "mean": "mean", "median": "median", "std": "standard deviation", "var": "variance",
    "pstd": "population standard deviation", "pvar": "population variance", "sum": "sum",
    "skew": "skewness", "kurt": "excess kurtosis", "range": "range", "iqr": "interquartile range",
    "max": "maximum", "min": "minimum",
}  # fmt: skip
WORDS = {
    "mean": "mean average avg", "median": "median", "std": "std standard deviation dev stdev sd",
    "pstd": "std standard deviation dev stdev sd population", "var": "var variance",
    "pvar": "var variance population", "sum": "sum total", "skew": "skew skewness",
    "kurt": "kurt kurtosis", "range": "range", "iqr": "iqr interquartile", "max": "max maximum "
    "highest largest", "min": "min minimum lowest smallest",
}  # fmt: skip
_PANDAS = {"pstd": "std(ddof=0)", "pvar": "var(ddof=0)"}
_POLARS = {**_PANDAS, "skew": "skew(bias=False)", "kurt": "kurtosis(bias=False)"}
_NOTES = {
    "std": "of a sample (ddof=1)", "var": "of a sample (ddof=1)", "pstd": "ddof=0",
    "pvar": "ddof=0", "skew": "adjusted, as in pandas",
    "kurt": "adjusted, normal = 0, as in pandas",
}  # fmt: skip

Segment = tuple[list[str], list[str]]


def statistics(query: Query) -> list[Measure]:
    """Return statistics of columns: `the mean of a and b, and the median of c`."""
    fixed = {each.column for each in query.ask.where if each.sign == "=="}
    if loose := [each for each in query.frame.by if each not in fixed]:
        return [_by_groups(query, loose)]
    return [
        _statistic(query, stat, column)
        for stats, columns in _segments(query.core)
        for column in query.numeric(*columns)
        for stat in _each_alone(stats, columns)
    ]


def _by_groups(query: Query, keys: list[str]) -> Measure:
    """Return one statistic for each group of a column."""
    stats, columns = query.ask.all("STAT", "EXTREME"), query.numeric(*query.columns)
    if len(keys) > 1 or len(stats) > 1 or len(columns) > 1 or stats[0] in _COMPOSED:
        raise MisfitError("By groups I compute one statistic of one column, by one column.")
    query.ask.pandas_only("Statistics by groups in such questions")
    (key,), (stat,), (column,) = query.ask.groups(*keys), stats, columns
    if key == column:
        raise MisfitError("A column can't be measured and grouped by at the same time.")
    source, groups = rows(query.table, query.ask.where), query.ask.name("groups")
    call = _PANDAS.get(stat, f"{stat}()")
    lines = (f"{groups} = {source}.groupby({literal(key)})[{literal(column)}].{call}",)
    name = f"{TITLES[stat]} of {column} by {key}"
    result = Result(name, f"{groups}.rename(str).to_dict()", frozenset())

    def report(values: Values) -> str:
        found = values[name]
        pairs = found.items() if isinstance(found, dict) else ()
        body = [[cell(str(k)), number(str(v), query.frame.digits)] for k, v in pairs]
        shown = table([label(key), TITLES[stat]], body)
        head = f"{TITLES[stat].capitalize()} of {code(column)} by {code(key)}"
        return f"**{head}** in {query.ask.about}\n\n{shown}"

    return Measure(name, (result,), report, lines, (groups,))


_COMPOSED = ("range", "iqr", "kurt")


def _segments(core: Sequence[Token]) -> list[Segment]:
    """Return which statistics are asked of which columns."""
    found: list[Segment] = []
    for token in core:
        if token.tag in ("STAT", "EXTREME"):
            if not found or found[-1][1]:
                found.append(([], []))
            found[-1][0].append(token.value)
        elif token.tag == "COL":
            if not found:
                found.append(([], []))
            found[-1][1].append(token.value)
    if found and not found[0][0]:  # `a mean`: the column comes first
        return [(found[1][0], found[0][1])]
    for i, (stats, columns) in enumerate(found):
        if not columns:  # `and its standard deviation`
            found[i] = (stats, found[i - 1][1])
    return found


def _each_alone(stats: list[str], columns: list[str]) -> list[str]:
    if "sum" in stats and len(columns) > 1:
        raise MisfitError("Of each column, or of both row by row? Ask for one at a time.")
    return list(dict.fromkeys(stats))


def _statistic(query: Query, stat: str, column: str) -> Measure:
    stat, library = _of_library(stat, query.frame.marks.get("LIBRARY", ""))
    name = f"{TITLES[stat]} of {column}"
    said = frozenset(WORDS[stat].split()) | frozenset(words(column))
    result = Result(name, _statistic_code(query, stat, column, library), said)
    note = "as in scipy, not adjusted" if library else _NOTES.get(stat, "")
    end = f" ({note}; {query.ask.about})" if note else f" (in {query.ask.about})"

    def report(values: Values) -> str:
        value = number(str(values[name]), query.frame.digits)
        return f"The {TITLES[stat]} of {code(column)} is **{value}**{end}."

    return Measure(name, (result,), report)


def _of_library(stat: str, library: str) -> tuple[str, str]:
    """Return the statistic as the named library computes it by default."""
    if library == "numpy" and stat in ("std", "var"):
        return f"p{stat}", ""
    return stat, library if library == "scipy" and stat in ("skew", "kurt") else ""


def _statistic_code(query: Query, stat: str, column: str, library: str) -> str:
    values, polars = query.values(column), query.table.library == "polars"
    if library:
        called = "skew" if stat == "skew" else "kurtosis"
        return f"stats.{called}({query.values(column, drop=True)})"
    if stat == "range":
        return f"{values}.max() - {values}.min()"
    if stat == "iqr":
        middle = ', "linear"' if polars else ""
        return f"{values}.quantile(0.75{middle}) - {values}.quantile(0.25{middle})"
    calls = _POLARS if polars else _PANDAS
    return f"{values}.{calls.get(stat, f'{stat}()')}"


def percentile(query: Query) -> list[Measure]:
    """Return a percentile: `the 90th percentile of a`."""
    (column,) = query.numeric(*query.columns)
    share = query.ask.all("NUMBER", "PERCENT")[0]
    share = share / 100 if share > 1 else share
    if not 0 <= share <= 1:
        raise MisfitError("A percentile lies between 0 and 100.")
    middle = ', "linear"' if query.table.library == "polars" else ""
    name = f"{share:.6g} quantile of {column}"
    said = frozenset(words(column)) | {"percentile", "quantile"}
    result = Result(name, f"{query.values(column)}.quantile({share:.6g}{middle})", said)
    return [_simple(query, name, result)]


def _simple(query: Query, title: str, *results: Result, unit: str = "") -> Measure:
    """Return a measure whose first value is reported in a plain sentence."""

    def report(values: Values) -> str:
        digits = query.frame.digits if results[0].kind == "number" else None
        value = number(str(values[results[0].name]), digits)
        return f"The {title} is **{value}{unit}** (in {query.ask.about})."

    return Measure(title, results, report)


def count(query: Query) -> list[Measure]:
    """Return the number of rows that meet the conditions."""
    said = frozenset({"count", "number", "n", "total", "rows"})
    result = Result("count", f"len({rows(query.table, query.ask.where)})", said, "count")
    return [_simple(query, "number of rows", result)]


def size(query: Query) -> list[Measure]:
    """Return the numbers of rows and columns."""
    name = query.table.name
    results = (
        Result("rows", f"{name}.shape[0]", frozenset({"rows", "row"}), "count"),
        Result("columns", f"{name}.shape[1]", frozenset({"columns", "column"}), "count"),
    )
    return [
        Measure("size", results, lambda v: f"**{v['rows']}** rows, **{v['columns']}** columns.")
    ]


def share(query: Query) -> list[Measure]:
    """Return the share of the rows that meet one condition, in percent."""
    if len(query.ask.where) != 1:
        raise MisfitError("A share of which rows? I can take one condition.")
    part, whole = rows(query.table, query.ask.where), query.table.name
    said = frozenset({"percentage", "percent", "share", "proportion", "pct"})
    result = Result("share", f"100 * len({part}) / len({whole})", said)
    unit = " %" if query.frame.marks["SHARE"] == "" else ""
    return [_simple(query, "share of the rows", result, unit=unit)]


def distinct(query: Query) -> list[Measure]:
    """Return the number of different values of a column, missing ones not counted."""
    (column,) = query.columns
    values = query.values(column, drop=True)
    call = "n_unique" if query.table.library == "polars" else "nunique"
    said = frozenset({"count", "number", "unique", "distinct", "different", *words(column)})
    result = Result(f"different {column}", f"{values}.{call}()", said, "count")
    return [_simple(query, f"number of different values of {code(column)}", result)]


def count_named(query: Query) -> list[Measure]:
    """Return how many `states have …`: a number only where rows and different values agree."""
    (column,) = query.columns
    (different,) = distinct(query)[0].results
    met = Result("rows", f"len({rows(query.table, query.ask.where)})", frozenset())
    values = Result("different", different.code, frozenset())

    def derive(found: Values) -> object:
        return found["rows"] if found["rows"] == found["different"] else None

    agreed = Result("count", "", different.words, "count", derive)

    def report(found: Values) -> str:
        n, many = (number(str(found[each])) for each in ("rows", "different"))
        if found["count"] is None:
            return (
                f"**I can't tell which number you mean:** {n} rows of {query.ask.about}, "
                f"with {many} different values of {code(column)}."
            )
        return f"**{n}** different values of {code(column)} (in {query.ask.about})."

    return [Measure(f"number of {column}", (met, values, agreed), report)]


def missing(query: Query) -> list[Measure]:
    """Return the number of missing values of a column, or their share in percent."""
    (column,) = query.columns
    gaps = "is_null()" if query.table.library == "polars" else "isna()"
    values = query.values(column)
    if query.has("SHARE"):
        said = frozenset({"percentage", "share", "missing", *words(column)})
        result = Result(f"missing {column}", f"100 * {values}.{gaps}.mean()", said)
        title = f"share of missing values in {code(column)}"
        return [_simple(query, title, result, unit=" %")]
    said = frozenset({"missing", "count", "null", "number", *words(column)})
    result = Result(f"missing {column}", f"{values}.{gaps}.sum()", said, "count")
    return [_simple(query, f"number of missing values in {code(column)}", result)]


def outliers(query: Query) -> list[Measure]:
    """Return the number of outliers by the IQR rule or by z-score."""
    (column,) = query.numeric(*query.columns)
    query.ask.pandas_only("Outliers")
    if query.has("IQR") and query.has("ZSCORE"):
        raise MisfitError("By the IQR rule or by z-score? Please ask for one of them.")
    values, frame = query.ask.name("values"), query.frame
    lines = [f"{values} = {query.values(column, drop=True)}"]
    drop = [values]
    if query.has("ZSCORE"):
        far = f"(({values} - {values}.mean()) / {values}.std()).abs() > {frame.threshold:g}"
        how = f"more than {frame.threshold:g} standard deviations (ddof=1) from the mean"
    else:
        q1, q3 = query.ask.name("q1"), query.ask.name("q3")
        drop += [q1, q3]
        lines.append(f"{q1}, {q3} = {values}.quantile([0.25, 0.75])")
        reach = f"{frame.factor:g} * ({q3} - {q1})"
        far = f"~{values}.between({q1} - {reach}, {q3} + {reach})"
        how = f"more than {frame.factor:g} interquartile ranges outside the quartiles"
    said = frozenset({"outliers", "outlier", "count", "number", *words(column)})
    name = f"outliers in {column}"
    result = Result(name, f"({far}).sum()", said, "count")
    where = query.ask.about

    def report(found: Values) -> str:
        return f"{code(column)} has **{found[name]}** outliers, values {how} (in {where})."

    return [Measure(name, (result,), report, tuple(lines), tuple(drop))]
