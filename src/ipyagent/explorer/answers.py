"""From a frame to code, by the table of verbs, and from what the code printed to a sentence.

Code prints rows as JSON, one line for each table. In code, text from a prompt or from data is only
a literal, and the user's names stay as they are.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any

from ipyagent.explorer.frame import Condition, Frame, MisfitError, compile_pattern
from ipyagent.explorer.text import cell, code, codes, fresh, literal, number, percent, table
from ipyagent.schema.tables import ColumnFacts, WorkspaceFacts

_SHOWN = 10
"""Rows that are listed if no number is named."""
_MOST = 100
_PERIODS = {"day": "D", "week": "W", "month": "M", "quarter": "Q", "year": "Y"}
_TITLES = {"std": "standard deviation", "var": "variance", "skew": "skewness", "min": "minimum"}
_TITLES |= {"max": "maximum"}
_CHANGED = " {about} has **{n0} rows** and {1} columns now. `%agent undo` takes it back."
_NUMBERS = '.select_dtypes("number")'
_CONVERTED = {
    "datetime": "pd.to_datetime({})", "number": "pd.to_numeric({})", "text": "{}.astype(str)",
}  # fmt: skip


class UnreadableError(Exception):
    """A tool's output lacks the rows that its call should have printed."""


@dataclass(frozen=True)
class Verb:
    """A row of the table of verbs."""

    name: str
    words: str
    code: str
    answer: str = ""
    none: str = ""
    best: str = ""
    columns: str = ""
    slots: str = ""
    needs: str = ""
    names: str = ""
    charts: str = ""
    groups: int = 0
    most_conditions: int = 99
    changes: bool = False


_FILE = files("ipyagent.explorer").joinpath("verbs.toml")
VERBS = [Verb(**row) for row in tomllib.loads(_FILE.read_text("utf-8"))["verb"]]


@dataclass
class Query:
    """A frame with the verb that answers it; `name` is the table's variable in the code."""

    frame: Frame
    verb: Verb
    columns: list[str]
    name: str
    facts: WorkspaceFacts
    about: str = ""

    @property
    def rule(self) -> str:
        """The verb and its columns, in words."""
        of = f" of {', '.join(self.columns)}" if self.columns else ""
        by = f" by {', '.join(self.keys)}" if self.keys else ""
        where = f" where {' and '.join(map(str, self.frame.where))}" * bool(self.frame.where)
        return f"{self.verb.name}{of}{by}{where} ({self.name})"

    @property
    def keys(self) -> list[str]:
        """The columns that group, also one of periods."""
        frame = self.frame
        listed = [frame.each] if frame.each and "by" in self.verb.needs and not frame.by else []
        return [*frame.by, *listed, *([frame.period] if frame.period else [])]

    @property
    def stats(self) -> list[str]:
        """The names of the statistics."""
        return list(dict.fromkeys(self.frame.values("STAT"))) or ["mean"]

    @property
    def end(self) -> str:
        """The end that comes first: max or min."""
        end = self.frame.first("END", "TOP", "DIR", "SUPERLATIVE", default="")
        end = end[0] if isinstance(end, tuple) else end
        return end or ("min" if "SORT" in self.frame.tags else "max")

    @cached_property
    def amount(self) -> int:
        """The number of rows that are asked for; raises MisfitError for an odd one."""
        is_one = any(t.tag == "ROWS" and not t.text.endswith("s") for t in self.frame.core)
        many = 1 if is_one and "FIRST" in self.frame.tags else 5
        many = _SHOWN if "SORT" in self.frame.tags else many
        amount = self.frame.first("NUMBER", default=many)
        if not isinstance(amount, int) or not 0 < amount <= _MOST:
            raise MisfitError(f"I can show 1 to {_MOST} rows.")
        return amount

    @property
    def rows(self) -> str:
        """The code of the rows that meet all conditions, with the periods of their dates."""
        tests = [_test(self.name, each) for each in self.frame.where]
        mask = " & ".join(f"({test})" for test in tests) if len(tests) > 1 else "".join(tests)
        rows = f"{self.name}[{mask}]" if mask else self.name
        if period := self.frame.period:
            dates = f"pd.to_datetime(rows[{literal(self.frame.one_date())}])"
            spelled = f'{dates}.dt.to_period("{_PERIODS[period]}").astype(str)'
            rows += f".assign({period}=lambda rows: {spelled})"
        return rows

    # Words for code and sentence.

    def names(self) -> dict[str, str]:
        """Return what stands for the names in the code of the verb."""
        columns, keys, frame = self.columns, self.keys, self.frame
        some = f"[{literal(columns)}]" if columns else ""
        shown_stats = list(dict.fromkeys([*self.stats, "count"]))
        one, other, *_ = [*columns, "", ""]
        known = {
            "t": self.name, "rows": self.rows, "cols": literal(columns),
            "col": literal(one), "a": one, "second": literal(other), "b": other,
            "by": literal(keys), "key": literal(keys[0]) if keys else "", "k": " and ".join(keys),
            "ranked": "" if frame.period else '.sort_values("rows", ascending=False)',
            "subset": f"subset={literal(columns)}" if columns else "",
            "chosen": self.rows + some, "numbers": self.rows + (some or _NUMBERS),
            "stat": self.stats[0], "stats_and_count": literal(shown_stats),
            "asc": str(self.end == "min"), "edge": frame.first("FIRST", default="head"),
            "pairs": literal([*keys, *columns]), "value": literal(self._value()),
            "chart": frame.first("CHART", default="bar"), "hue": literal(frame.colour),
            "sign": frame.first("ARITH", default=""), "seen": literal([*columns, *frame.colour]),
            "shade": literal("".join(frame.colour)),
        }  # fmt: skip
        if re.search(r"\{(n|shown|operand|quantile)\}", self.verb.code):
            known |= self._amounts(known)
        if kind := frame.first("KIND"):
            known["converted"] = _CONVERTED[kind].format(f"{self.name}[{literal(columns[0])}]")
        if path := frame.first("NOFILE"):
            if not path.endswith(".csv"):
                raise MisfitError("I can save to a .csv file.")
            known["path"] = literal(path)
        taken = {*self.facts.variables, self.name}
        return known | {each: fresh(each, taken) for each in self.verb.names.split()}

    def _value(self) -> object:
        value = self.frame.first("VALUE", "QUOTED", "NUMBER", "NAME")
        return value[1] if isinstance(value, tuple) else value

    def _write_formula(self) -> str:
        parts = [t.value for t in self.frame.core if t.tag in ("COL", "ARITH", "NUMBER")]
        return code(" ".join(map(str, parts)))

    def _amounts(self, known: Mapping[str, str]) -> dict[str, str]:
        """Return what the number in a request stands for."""
        if "QUANTILE" in self.frame.tags:
            share = float(self.frame.first("NUMBER"))
            share = share if 0 < share < 1 else share / 100
            if not 0 < share < 1:
                raise MisfitError("A percentile is a number between 0 and 100.")
            return {"quantile": f"{share:g}"}
        if self.verb.changes:
            number_ = self.frame.first("NUMBER")
            column = f"{self.name}[{known['second']}]"
            return {"operand": column if number_ is None else repr(number_)}
        single = not self.frame.values("NUMBER") and not self.frame.values("TOP")
        return {"n": str(self.amount), "shown": str(5 if single else self.amount)}

    def code(self) -> str:
        """Return the code that answers; raises MisfitError."""
        names = self.names()
        lines = []
        for line in _fill(self.verb.code, names).strip("\n").splitlines():
            shown = line.removeprefix("> ")
            lines.append(_show(shown) if shown != line else line)
        if self.verb.changes:
            lines.append(f"print([*{self.name}.shape])")
        drop = [names[each] for each in self.verb.names.split()]
        return "\n".join([*lines, *[f"del {', '.join(drop)}"] * bool(drop)])

    def say(self, output: str) -> str:
        """Return the answer in words; raises UnreadableError."""
        frames = [*_read_rows(output)]
        if len(frames) < max(1, len(re.findall("^> ", self.verb.code, re.MULTILINE))):
            raise UnreadableError("no rows")
        if self.verb.best and not frames[-1].rows:
            return f"There are no rows with values in {self.about}."
        given = self._words(frames)
        template = self.verb.answer
        if self.verb.none and frames[0].rows[0][0] == 0:
            template = self.verb.none
        template += _CHANGED * self.verb.changes
        return re.sub(r"\{(\w+)\}", lambda found: given[found[1]], template)

    def _words(self, frames: Sequence[Rows]) -> dict[str, str]:
        """Return what stands for the names in the sentence of the verb."""
        first = [*(frames[0].rows or [[]])[0], None, None][:2]
        last, columns = frames[-1], self.frame.table.columns or ()
        end = "highest" if self.end == "max" else "lowest"
        titles = [_TITLES.get(each, each) for each in self.stats]
        said = " and ".join(titles)
        words = self.names() | {
            "about": self.about, "conditions": join_conditions(self.frame.where),
            "0": number(first[0]), "1": number(first[1]), "n0": count(first[0]),
            "n1": count(first[1]), "table": last.show(), "table0": frames[0].show(),
            "count": "row" if len(last.rows) == 1 else f"{len(last.rows)} rows",
            "types": table(["column", "type"], [[c.name, c.dtype] for c in columns]),
            "colnames": codes(self.columns) or "any column", "end": end,
            "keys": codes(self.keys), "huenames": codes(self.frame.colour),
            "title": titles[0], "Titles": f"{said[:1].upper()}{said[1:]}",
            "edge_word": "last" if self.frame.first("FIRST") == "tail" else "first",
            "kind": self.frame.first("KIND", default=""), "value": code(str(self._value())),
            "formula": self._write_formula(), "lastname": codes(self.columns[-1:]),
        }  # fmt: skip
        if len(frames) > 2:
            words["table1"] = frames[1].show()
        if "{p}" in self.verb.answer:
            words["p"] = percent(*first)
        if "{shares}" in self.verb.answer:
            rows = frames[0].rows[0][-1]
            shown = [[*row, percent(row[-1], rows)] for row in last.rows]
            words["shares"] = table([*last.heading, "share"], shown)
        return words | (self._find_best(last) if self.verb.best else {})

    def _find_best(self, found: Rows) -> dict[str, str]:
        """Return the value of the first row, and those that have it, all in a tie."""
        named = {"stat": self.stats[0], "last": self.columns[-1]}
        values = found.column(self.verb.best.format_map(named))
        tied = [row for row, value in zip(found.rows, values, strict=True) if value == values[0]]
        is_owned = self.verb.columns.startswith("key")
        owner = found.heading.index(self.columns[0]) if is_owned else 0
        numbers = [each for each in values if isinstance(each, int | float)]
        return {
            "best": number(values[0]), "ties": ", ".join(cell(row[owner]) for row in tied),
            "gap": number(max(numbers) - min(numbers)) if numbers else "n/a",
            "tied": f" {len(tied)} rows have it." if 1 < len(tied) < len(values) else "",
        }  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """Rows that code printed."""

    heading: list[str]
    rows: list[list[Any]]

    def show(self) -> str:
        """Return them as a Markdown table."""
        return table(self.heading, self.rows)

    def column(self, name: str) -> list[Any]:
        """Return the values of a column."""
        at = self.heading.index(name)
        return [row[at] for row in self.rows]


def _show(expression: str) -> str:
    if expression.startswith("["):
        return f"print({expression})"
    as_json = '.to_json(orient="split", index=False, date_format="iso")'
    if len(expression) < 60:
        return f"print({expression}{as_json})"
    return f"print(\n    {expression}\n    {as_json}\n)"


def _read_rows(output: str) -> Iterator[Rows]:
    for line in output.splitlines():
        if line.startswith(('{"columns":', "[")) and line.endswith(("}", "]")):
            try:
                found = json.loads(line)
            except ValueError:
                continue
            named = found if isinstance(found, dict) else {"columns": found, "data": [found]}
            yield Rows([str(each) for each in named["columns"]], named["data"])


def _fill(template: str, names: Mapping[str, str]) -> str:
    """Put names into a template; within a text, as in `"mean of {a}"`, they become part of it."""

    def join(text: re.Match[str]) -> str:
        named = re.sub(r"(?<!\{)\{(\w+)\}", lambda name: names[name[1]], text[1])
        made = literal(named).replace("{", "{{").replace("}", "}}")
        return made if named != text[1] else text[0]

    return re.sub(r'"([^"\n]*)"', join, template).format_map(names)


def _test(name: str, condition: Condition) -> str:
    column = f"{name}[{literal(condition.column)}]"
    if condition.part:
        column = f"pd.to_datetime({column}){'.dt.year' * (condition.part == 'year')}"
    if condition.sign in ("null", "known"):
        return f"{column}.{'isna' if condition.sign == 'null' else 'notna'}()"
    if condition.sign in ("in", "not in"):
        return f"{'~' * (condition.sign == 'not in')}{column}.isin({literal(condition.value)})"
    if isinstance(condition.value, bool):
        return column if condition.value == (condition.sign == "==") else f"~{column}"
    return f"{column} {condition.sign} {literal(condition.value)}"


# Choosing a verb ---------------------------------------------------------------------------------


def find_query(frame: Frame, name: str, facts: WorkspaceFacts) -> Query | None:
    """Return the query of the first verb that fits; raises MisfitError if only columns do not."""
    reasons: list[str] = []
    for verb in VERBS:
        if not compile_pattern(verb.words).fullmatch(frame.tags) or not _has_slots(verb, frame):
            continue
        try:
            columns = _choose_columns(verb, frame)
        except MisfitError as misfit:
            reasons.append(str(misfit))
            continue
        if verb.changes and frame.table.library == "polars":
            raise MisfitError("I can change pandas tables only.")
        query = Query(frame, verb, columns, name, facts)
        if {*columns} & {*query.keys}:
            raise MisfitError(f"{codes({*columns} & {*query.keys})} is named twice.")
        return query
    if reasons:
        raise MisfitError(reasons[-1])
    return None


def _has_slots(verb: Verb, frame: Frame) -> bool:
    allowed = {*verb.slots.split(), *verb.needs.split()}
    given = {"by" if each == "period" else each for each in frame.slots}
    needed = {*verb.needs.split()}
    has_each = bool(frame.each) and "by" not in given
    if not given <= allowed or not needed <= given | ({"by"} if has_each else set()):
        return False
    if has_each and "by" not in needed and verb.name in _POOLED:
        return False
    groups = len(frame.by) + bool(frame.period) or int(bool(frame.each))
    if verb.groups and groups != verb.groups:
        return False
    charts = frame.values("CHART")
    return len(frame.where) <= verb.most_conditions and all(
        c in verb.charts.split() for c in charts
    )


_POOLED = ("a statistic", "statistics", "share", "count", "quantile")
"""Verbs that would answer once for values that were listed with "and"."""


def _choose_columns(verb: Verb, frame: Frame) -> list[str]:
    """Return the columns of a verb; raises MisfitError if their kinds do not fit."""
    named = frame.values("COL") or [v[1] for v in frame.values("SUPERLATIVE")]
    if len(named) != len({*named}):
        raise MisfitError(f"{codes(dict.fromkeys(named))} is named twice.")
    wanted = verb.columns.split()
    if not wanted:
        return named
    if wanted == ["date"] and not named:
        named = [frame.one_date()]
    kinds = [*wanted[:-1], *[wanted[-1].strip("+*?")] * (len(named) - len(wanted) + 1)]
    if len(named) < len(wanted) and wanted[-1][-1] not in "*?":
        raise MisfitError("Which column?")
    if len(named) > len(wanted) and wanted[-1][-1] not in "+*":
        raise MisfitError("These are more columns than I can take.")
    for name, kind in zip(named, kinds, strict=False):
        column = frame.column(name)
        if not _FITS[kind](column):
            raise MisfitError(_MISFITS[kind].format(code(name), column.dtype))
    return named


_FITS: dict[str, Callable[[ColumnFacts], bool]] = {
    "number": lambda c: c.kind == "number",
    "text": lambda c: c.kind in ("text", "bool"),
    "group": lambda c: (
        c.kind != "number" or not c.dtype.casefold().startswith(("float", "decimal"))
    ),
    "key": lambda c: c.is_key,
    "date": lambda c: c.kind == "date",
    "ordered": lambda c: c.kind in ("number", "date", "text"),
    "any": lambda c: True,
}
_MISFITS = dict.fromkeys(_FITS, "{} is {}, which does not fit here.") | {
    "number": "{} is {}, but this needs numbers.",
    "group": "{} is {}: decimal numbers form no groups.",
    "key": "A value of {} may have several rows: say their mean, sum or maximum.",
}


# Sentences ---------------------------------------------------------------------------------------


def count(value: object) -> str:
    """Format a count with separators; another value as it is."""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else number(value)


def join_conditions(where: Sequence[Condition]) -> str:
    """Return conditions in words."""
    return " and ".join(code(str(each)) for each in where)
