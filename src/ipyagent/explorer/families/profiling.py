"""A profile: types, missing values, ranges, outliers, duplicates, cardinality, correlations."""

from __future__ import annotations

from ipyagent.explorer.ask import Ask, SentenceRule
from ipyagent.explorer.markdown import (
    block,
    cell,
    code,
    codes,
    figures,
    label,
    number,
    percent,
    table,
)
from ipyagent.explorer.snippets import literal, print_chain
from ipyagent.explorer.steps import Step, UnreadableError

_ALL = ["column", "type", "missing", "distinct"]
_NUMBERS = ["min", "median", "max", "outliers"]
_MAX_CORRELATED = 20  # columns: more would be a page of numbers


def _profile(ask: Ask) -> Step:
    numbers = ask.table.of_kind("number")
    name = ask.name("profile")
    lines = (_polars if ask.table.library == "polars" else _pandas)(ask, name, bool(numbers))
    if 1 < len(numbers) <= _MAX_CORRELATED and ask.table.library == "pandas":
        lines.append(f"print({ask.table.name}[{literal(numbers)}].corr().to_csv())")
    return ask.python(
        "profile", lines, lambda output: _describe_profile(ask, numbers, output), name
    )


def _pandas(ask: Ask, profile: str, numbers: bool) -> list[str]:
    name = ask.table.name
    ranges = [
        '    numbers = table.select_dtypes("number")',
        "    low, high = numbers.quantile(0.25), numbers.quantile(0.75)",
        "    reach = 1.5 * (high - low)  # the usual fences for outliers",
        '    columns[["min", "median", "max"]] = numbers.agg(["min", "median", "max"]).T',
        "    outside = (numbers < low - reach) | (numbers > high + reach)",
        '    columns["outliers"] = outside.sum()',
    ]
    return [
        f"def {profile}(table):",
        '    columns = table.dtypes.astype(str).to_frame("type")',
        '    columns["missing"], columns["distinct"] = table.isna().sum(), table.nunique()',
        *(ranges if numbers else []),
        "    return columns",
        "",
        f'print(len({name}), "rows,", {name}.duplicated().sum(), "duplicates")',
        f'print({profile}({name}).to_csv(index_label="column"))',
    ]


def _polars(ask: Ask, profile: str, numbers: bool) -> list[str]:
    name = ask.table.name
    ranges = [
        "    if values.dtype.is_numeric():",
        '        low, high = values.quantile(0.25, "linear"), values.quantile(0.75, "linear")',
        "        reach = 1.5 * (high - low)  # the usual fences for outliers",
        '        found |= {"min": values.min(), "median": values.median(), "max": values.max()}',
        "        outside = (values < low - reach) | (values > high + reach)",
        '        found["outliers"] = outside.sum()',
    ]
    return [
        f"def {profile}(column):",
        "    values = column.drop_nulls()",
        '    found = {"column": column.name, "type": str(column.dtype)}',
        '    found |= {"missing": column.null_count(), "distinct": values.n_unique()}',
        *(ranges if numbers else []),
        "    return found",
        "",
        f'print(len({name}), "rows,", len({name}) - len({name}.unique()), "duplicates")',
        *print_chain(
            f"pl.from_dicts([{profile}(c) for c in {name}], infer_schema_length=None)",
            ".write_csv()",
        ),
    ]


def _describe_profile(ask: Ask, numbers: list[str], output: str) -> str:
    rows, duplicates = figures(output, r"(\d+) rows, (\d+) duplicates")
    heading = [*_ALL, *(_NUMBERS if numbers else [])]
    found = block(output, heading)
    if not found:
        raise UnreadableError("the profile has no columns")
    body = [[label(row[0]), cell(row[1]), *_figures(row[2:])] for row in found]
    size = f"{number(rows)} rows, {len(found)} columns, {_duplicate(duplicates)}"
    parts = [
        f"**{code(ask.table.name)}: {size}**",
        table(heading, body, left=2),
        _notes(found, int(rows)),
        _strongest_correlations(numbers, output),
    ]
    return "\n\n".join(part for part in parts if part)


def _figures(cells: list[str]) -> list[str]:
    return ["" if value in ("", "nan", "None") else number(value) for value in cells]


def _duplicate(count: str) -> str:
    return "no duplicate rows" if count == "0" else f"{count} duplicate rows"


def _notes(found: list[list[str]], rows: int) -> str:
    """Return the first look of an analyst at a table."""
    notes = []
    if gaps := sorted((row for row in found if int(row[2])), key=lambda row: -int(row[2])):
        name, _, count, *_ = gaps[0]
        most = f"most in {code(name)} ({count}, {percent(count, rows)})"
        notes.append(f"- Missing: {len(gaps)} of {len(found)} columns, {most}")
    if constant := [row[0] for row in found if row[3] in ("0", "1") and rows > 1]:
        notes.append(f"- Constant: {codes(constant)}")
    if keys := [row[0] for row in found if int(row[3]) == rows and rows > 1]:
        notes.append(f"- Different in every row: {codes(keys)}")
    if len(found[0]) > len(_ALL):
        outside = [f"{code(row[0])} ({number(row[7])})" for row in found if float(row[7] or 0)]
        notes.append(f"- Outliers (IQR rule): {', '.join(outside) or 'none'}")
    return "\n".join(notes)


def _strongest_correlations(numbers: list[str], output: str) -> str:
    """Return the strongest correlations, if they were printed."""
    try:
        matrix = block(output, ["", *numbers])
    except UnreadableError:
        return ""
    pairs = [
        (float(r), row[0], other)
        for i, row in enumerate(matrix)
        for other, r in zip(numbers[:i], row[1:], strict=False)
        if r
    ]
    best = sorted(pairs, key=lambda pair: -abs(pair[0]))[:3]
    sentences = [f"{code(a)} and {code(b)} ({number(str(r), 2)})" for r, a, b in best]
    return f"Strongest correlations: {', '.join(sentences)}." if sentences else ""


RULES = (SentenceRule("PROFILE (OF|IN)? | NOUN? PROFILE | NEW PROFILE OF?", _profile),)
