"""The quality of data: missing values, duplicate rows, outliers."""

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
from ipyagent.explorer.steps import MisfitError, Step


def _missing(ask: Ask) -> Step:
    name = ask.table.name
    polars = ask.table.library == "polars"
    source = f"{name}[{literal(ask.columns)}]" if ask.columns else name
    if polars:
        count = '.null_count().unpivot(variable_name="column", value_name="missing").write_csv()'
    else:
        count = '.isna().sum().rename("missing").to_csv(index_label="column")'
    lines = [f'print(len({name}), "rows")', f"print({source}{count})"]
    return ask.python("missing values", lines, lambda output: _missing_answer(ask, output))


def _missing_answer(ask: Ask, output: str) -> str:
    (rows,) = figures(output, r"(\d+) rows")
    found = [(column, int(count)) for column, count in block(output, ["column", "missing"])]
    some = sorted((each for each in found if each[1]), key=lambda each: -each[1])
    name, total = code(ask.table.name), sum(count for _, count in found)
    if len(found) == 1:
        column, share = code(found[0][0]), percent(total, rows)
        return f"{column} has **{total} missing values** in {rows} rows of {name} ({share})."
    if not some:
        return f"**No missing values** in {name} ({rows} rows, {len(found)} columns)."
    body = [[label(column), number(str(count)), percent(count, rows)] for column, count in some]
    where = f"{len(some)} of {len(found)} columns of {name} ({rows} rows)"
    shown = table(["column", "missing", "share"], body)
    return f"**{total} missing values** in {where}\n\n{shown}"


def _missing_rows(ask: Ask) -> Step:
    name = ask.table.name
    drop = "drop_nulls" if ask.table.library == "polars" else "dropna"
    line = f'print(len({name}) - len({name}.{drop}()), "of", len({name}), "rows")'

    def answer(output: str) -> str:
        part, whole = figures(output, r"(\d+) of (\d+) rows")
        share = percent(part, whole)
        return f"**{part}** of {whole} rows of {code(name)} ({share}) have a missing value."

    return ask.python("rows with missing values", [line], answer)


def _gaps(ask: Ask) -> Step:
    """Answer `which rows have missing values`, `rows where sex is missing`."""
    name, heading = ask.table.name, list(ask.table.columns or {})
    columns, star = literal(ask.columns) if ask.columns else "", literal("*")
    if ask.table.library == "polars":
        gaps = f"{name}.filter(pl.any_horizontal(pl.col({columns or star}).is_null()))"
        writer = "write_csv()"
    else:
        chosen = f"{name}[{columns}]" if columns else name
        gaps, writer = f"{name}[{chosen}.isna().any(axis=1)]", "to_csv(index=False)"
    lines = [
        f'print(len({gaps}), "of", len({name}), "rows")',
        f"print({gaps}.head(10).{writer})",
    ]

    def answer(output: str) -> str:
        part, whole = figures(output, r"(\d+) of (\d+) rows")
        body = [[cell(value) for value in row] for row in block(output, heading)]
        where = f" in {codes(ask.columns)}" if ask.columns else ""
        head = f"**{part} of {whole} rows** of {code(name)} have a missing value{where}"
        if not body:
            return f"{head}."
        some = f"; here are {len(body)}" if int(part) > len(body) else ""
        return f"{head}{some}\n\n{table([*map(label, heading)], body, left=len(heading))}"

    return ask.python("rows with missing values", lines, answer)


def _duplicates(ask: Ask) -> Step:
    name = ask.table.name
    unique = "unique" if ask.table.library == "polars" else "drop_duplicates"
    line = f'print(len({name}) - len({name}.{unique}()), "of", len({name}), "rows")'

    def answer(output: str) -> str:
        part, whole = figures(output, r"(\d+) of (\d+) rows")
        if part == "0":
            return f"**No duplicate rows** in {code(name)} ({whole} rows)."
        share = percent(part, whole)
        return f"**{part}** of {whole} rows of {code(name)} ({share}) repeat another row."

    return ask.python("duplicate rows", [line], answer)


def _outliers(ask: Ask) -> Step:
    columns = ask.numeric(*ask.columns) or ask.table.of_kind("number")
    if not columns:
        raise MisfitError(f"{code(ask.table.name)} has no columns of numbers.")
    if ask.has("ZSCORE"):
        return _far_from_mean(ask, columns)
    name = ask.name("outliers")
    polars = ask.table.library == "polars"
    lines = (_fences_polars if polars else _fences_pandas)(ask, name, columns)
    request = f"outliers by the IQR rule in {', '.join(columns)}"
    return ask.python(request, lines, lambda output: _outliers_said(ask, columns, output), name)


def _outliers_said(ask: Ask, columns: list[str], output: str) -> str:
    found = block(output, ["column", "below", "above", "low", "high"])
    total = sum(int(float(row[1])) + int(float(row[2])) for row in found)
    body = [
        [label(c), number(below), number(above), f"{number(low)} … {number(high)}"]
        for c, below, above, low, high in found
    ]
    of = f"of {code(columns[0])} " if len(columns) == 1 else ""
    rule = "more than 1.5 interquartile ranges outside the quartiles"
    shown = table(["column", "below", "above", "expected range"], body)
    return f"**{total or 'No'} outliers** {of}in {code(ask.table.name)}: values {rule}\n\n{shown}"


def _fences_pandas(ask: Ask, name: str, columns: list[str]) -> list[str]:
    return [
        f"def {name}(values):",
        "    q1, q3 = values.quantile(0.25), values.quantile(0.75)",
        "    low, high = q1 - 1.5 * (q3 - q1), q3 + 1.5 * (q3 - q1)",
        "    below, above = (values < low).sum(), (values > high).sum()",
        '    return pd.Series({"below": below, "above": above, "low": low, "high": high})',
        "",
        *print_chain(
            f"{ask.table.name}[{literal(columns)}]",
            f".apply({name})",
            ".T",
            '.to_csv(index_label="column")',
        ),
    ]


def _fences_polars(ask: Ask, name: str, columns: list[str]) -> list[str]:
    return [
        f"def {name}(values):",
        '    q1, q3 = values.quantile(0.25, "linear"), values.quantile(0.75, "linear")',
        "    low, high = q1 - 1.5 * (q3 - q1), q3 + 1.5 * (q3 - q1)",
        "    below, above = (values < low).sum(), (values > high).sum()",
        "    column = values.name",
        "    return dict(column=column, below=below, above=above, low=low, high=high)",
        "",
        *print_chain(
            f"pl.from_dicts([{name}(c) for c in {ask.table.name}[{literal(columns)}]])",
            ".write_csv()",
        ),
    ]


def _far_from_mean(ask: Ask, columns: list[str]) -> Step:
    ask.pandas_only("Outliers by z-score")
    source = f"{ask.table.name}[{literal(columns)}]"
    lines = [
        f"{(z := ask.name('z_scores'))} = ({source} - {source}.mean()) / {source}.std()",
        f'print(({z}.abs() > 3).sum().rename("outliers").to_csv(index_label="column"))',
    ]

    def answer(output: str) -> str:
        body = [[label(c), number(count)] for c, count in block(output, ["column", "outliers"])]
        title = (
            f"**Values more than 3 standard deviations from the mean** in {code(ask.table.name)}"
        )
        return f"{title}\n\n{table(['column', 'outliers'], body)}"

    return ask.python(f"outliers by z-score in {', '.join(columns)}", lines, answer, z)


_HOW = "((BY|WITH|VIA) (IQR|ZSCORE))?"
_OF = "(OF|IN|FOR)"
RULES = (
    SentenceRule(f"(COUNT|SHARE)? OF? MISSING ({_OF}? COL (AND COL)*)? | COL MISSING", _missing),
    SentenceRule(f"(COUNT|SHARE)? OF? MISSING (BY|{_OF}) COLUMNS", _missing),
    SentenceRule("COLUMNS (HAS|WITH|IS) MISSING | COUNT MISSING (IS|HAS)? (IN|BY) COL", _missing),
    SentenceRule("COUNT ROWS (WITH|HAS) MISSING", _missing_rows),
    SentenceRule("COUNT (ROWS IS)? MISSING COL | COUNT ROWS (WITH|HAS) MISSING COL", _missing),
    SentenceRule("SHOW? ROWS (WITH|HAS) MISSING COL?", _gaps),
    SentenceRule("SHOW? ROWS? WHERE COL IS MISSING", _gaps),
    SentenceRule("(HAS|WITH) MISSING COL?", _gaps, "", "table"),
    SentenceRule(
        "COUNT? DUPLICATES ROWS? | HAS DUPLICATES | COUNT? ROWS IS DUPLICATES", _duplicates
    ),
    SentenceRule(f"COUNT? OUTLIERS ({_OF} (COL (AND COL)*|COLUMNS)|BY COLUMNS)? {_HOW}", _outliers),
    SentenceRule(f"COL OUTLIERS {_HOW} | (COL|COLUMNS) HAS OUTLIERS {_HOW}", _outliers),
    SentenceRule(f"(ZSCORE|IQR) OUTLIERS ({_OF} COL)?", _outliers),
)
