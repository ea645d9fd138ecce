"""A question's frame: conditions, groups, rounding and method set apart, and the core that is left.

Each token of each sentence has to find its place. What is left over becomes the core, and a core
that no measure describes completely is declined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ipyagent.explorer.chunks import Token
from ipyagent.explorer.grammar import find_pattern
from ipyagent.explorer.markdown import code
from ipyagent.explorer.names import words
from ipyagent.explorer.questions.dates import month_tokens
from ipyagent.explorer.steps import MisfitError
from ipyagent.explorer.workspace import Table

Core = tuple[Token, ...]

# Structure is what has an order; all other words are marks, which may stand anywhere.
STRUCTURE = frozenset(
    [
        "COL",
        "PLURAL",
        "STAT",
        "EXTREME",
        "VALUE",
        "QUOTED",
        "PAIR",
        "NUMBER",
        "PERCENT",
        "DATE",
        "AND",
        "UNKNOWN",
        "NOT",
        "IF",
        "OP",
        "THAN",
        "AGED",
    ]
)
_JOINTS = frozenset(
    [
        "AT",
        "OF",
        "IN",
        "FOR",
        "WITH",
        "HAS",
        "WHERE",
        "ON",
        "IS",
        "AS",
        "TO",
        "ONLY",
        "GROUP",
        "BETWEEN",
        "BY",
        "EQ",
    ]
)

_LEAD = "(AND|WHERE|FOR|IN|OF|ON|WITH|HAS|ONLY|IS)*"
_IS = "(IS|EQ|OF|HAS|WITH|IN)*"
_NUMBER = "(NUMBER|PERCENT)"
_CONDITION = f"""(
    COL {_IS} OP {_NUMBER} | COL {_IS} BETWEEN NUMBER AND NUMBER | COL (IS|EQ)+ (NUMBER|QUOTED)
  | COL {_IS} (OP|BETWEEN) DATE (AND DATE)? | COL IS? NUMBER | (OP|WITH|HAS)+ {_NUMBER} COL
)"""
_CLAUSES: tuple[tuple[str, str], ...] = (
    ("alpha", f"(WITH|AS|AT|FOR)* (SIGNIFICANT|ALPHA)+ (OF|EQ|IS|AT)* {_NUMBER} ALPHA?"),
    ("alpha", "AT PERCENT (SIGNIFICANT|ALPHA)* | (WITH|AS|FOR)* PERCENT (SIGNIFICANT|ALPHA)+"),
    ("alpha", "PVALUE IS? OP NUMBER"),
    ("digits", "AND? (ROUND|WITH|TO|FOR|AS)* NUMBER DECIMALS"),
    ("whole", "AND? ROUND (TO|AS)* WHOLE"),
    ("threshold", "(WITH|OF|AS)* THRESHOLD (OF|EQ|IS)* NUMBER"),
    ("threshold", "ZSCORE IS? OP NUMBER"),
    ("factor", "NUMBER TIMESIQR"),
    ("by", "GROUP* BY COL"),
    ("where", "BEFORE (NUMBER|DATE)"),
    ("where", f"{_LEAD} {_CONDITION}"),
    ("where", "(WHERE|FOR|IN|OF|WITH|HAS|ONLY|IS)* VALUE (AND VALUE)*"),
    ("where", "(IN|FOR)+ NUMBER | OP NUMBER"),
)


@dataclass
class Frame:
    """The content of a prompt, apart from the form of its answer."""

    main: list[Core] = field(default_factory=list)
    marks: dict[str, str] = field(default_factory=dict)
    where: list[Token] = field(default_factory=list)
    by: list[str] = field(default_factory=list)
    digits: int | None = None
    alpha: float = 0.05
    threshold: float = 3
    factor: float = 1.5
    asks: bool = False  # for yes or no
    raw: list[Core] = field(default_factory=list)  # the sentences of `main` with all their joints

    def add(self, sentence: Sequence[Token], table: Table) -> None:
        """Sort the tokens of one more sentence; raises MisfitError for what makes no sense."""
        rest = _join_values(_name_adjectives(tuple(sentence), table))
        if any(token.tag == "IF" for token in rest):
            self._add_decision(rest)
            return
        raw = rest
        for name, pattern in _CLAUSES:
            while span := find_pattern(pattern, rest):
                start, end = span
                if name == "alpha" and rest[start].tag == "PVALUE":
                    self.marks["PVALUE"] = ""
                self._take(name, rest[start:end])
                rest = rest[:start] + rest[end:]
        core = _strip(tuple(each for each in rest if each.tag in STRUCTURE))
        counts = any(each.tag in ("COUNT", "SHARE") for each in rest)
        for each in rest:
            placed = each.tag in STRUCTURE or each.tag in _JOINTS
            if not placed and (each.tag != "ROWS" or counts):
                self._mark(each)
        if self.main and core and {each.tag for each in core} <= {"STAT", "AND"}:
            self.main[-1] += (Token("AND", "", ","), *core)  # `Report the mean.`
        elif core:
            self.main.append(core)
            self.raw.append(raw)

    @property
    def columns(self) -> list[str]:
        """All columns that are asked about, each once."""
        named = [*self.where, *(token for core in self.main for token in core)]
        columns = [each.value for each in named if each.tag in ("COL", "PLURAL")]
        return list(dict.fromkeys([*columns, *self.by, *self._date_parts()]))

    def _date_parts(self) -> list[str]:
        """Return the year, if a number or date is a condition without a column: `in 2013`."""
        loose = self.where and not any(each.tag in ("COL", "VALUE") for each in self.where)
        return ["year"] if loose else []

    def _mark(self, token: Token) -> None:
        if token.tag in self.marks and self.marks[token.tag] not in ("", token.value):
            raise MisfitError(f"{code(token.text)} and another method cannot both be used.")
        self.marks[token.tag] = token.value

    def _take(self, name: str, part: Core) -> None:
        numbers = [each.value for each in part if each.tag in ("NUMBER", "PERCENT")]
        match name:
            case "alpha":
                percent = any(each.tag == "PERCENT" for each in part)
                self.alpha = numbers[0] / 100 if percent else numbers[0]
            case "digits" | "whole":
                self._round(int(numbers[0]) if numbers else 0)
            case "threshold":
                self.threshold = numbers[0]
                self.marks["ZSCORE"] = ""
            case "factor":
                self.factor = numbers[0]
                self.marks["IQR"] = ""
            case "by":
                self.by.append(part[-1].value)
            case _:
                self.where += [
                    each for each in _in_order(part) if each not in self._stated_values()
                ]

    def _stated_values(self) -> list[Token]:
        """Return the values that are conditions already: said twice, they stay one condition."""
        return [each for each in self.where if each.tag == "VALUE"]

    def _round(self, digits: int) -> None:
        if not 0 <= digits <= 12:
            raise MisfitError("I can round to 0 to 12 decimals.")
        self.digits = digits

    def _add_decision(self, sentence: Core) -> None:
        """Read `if the p-value is less than 0.05, the data is not normally distributed`."""
        tags = [each.tag for each in sentence if each.tag not in ("AND", "IS", "WHERE")]
        pattern = "IF PVALUE OP (NUMBER|ALPHA) NOT? (NORMAL|SIGNIFICANT|CORR|DISTRIBUTION)+"
        plain = tuple(each for each in sentence if each.tag in tags)
        found = find_pattern(pattern, plain)
        if found != (0, len(plain)):
            raise MisfitError("I don't understand what depends on “if”.")
        sign = next(each.value for each in plain if each.tag == "OP")
        negated, normal = "NOT" in tags, "NORMAL" in tags
        if (sign[0] == "<") != (negated if normal else not negated):
            raise MisfitError("A small p-value speaks against the hypothesis; please check “if”.")
        self.alpha = next((e.value for e in plain if e.tag == "NUMBER"), self.alpha)


def _in_order(part: Core) -> list[Token]:
    """Return a condition with its column before its sign and its number."""
    numbers = {"PERCENT": "NUMBER", "BEFORE": "OP"}
    kept = [Token(numbers.get(each.tag, each.tag), each.value, each.text) for each in part]
    if kept[-1].tag == "COL":
        kept = [kept[-1], *kept[:-1]]
    return [each for each in kept if each.tag not in ("WITH", "HAS", "ONLY", "WHERE", "OF", "EQ")]


def _strip(core: Core) -> Core:
    """Return the core without `and` at its ends, and with one where there are several."""
    kept: list[Token] = []
    for token in core:
        if token.tag == "AND" and (not kept or kept[-1].tag == "AND"):
            continue
        kept.append(token)
    return tuple(kept[:-1] if kept and kept[-1].tag == "AND" else kept)


def _join_values(found: Core) -> Core:
    """Join a value with its own column beside it, and two values of a column that are compared."""
    kept: list[Token] = []
    for token in found:
        before = [each for each in kept[-3:] if each.tag not in ("IS", "EQ", "OF", "IN")]
        last = before[-1] if before else None
        if token.tag == "VALUE" and last and last.tag == "COL" and last.value == token.value[0]:
            while kept[-1] is not last:
                kept.pop()
            kept[-1] = token
        elif token.tag == "COL" and kept and _holds(kept[-1], token.value):
            continue
        else:
            kept.append(token)
    return _pairs(tuple(kept))


def _holds(value: Token, column: str) -> bool:
    return value.tag == "VALUE" and bool(value.value[0] == column)


def _pairs(found: Core) -> Core:
    for i in range(len(found) - 2):
        left, between, right = found[i : i + 3]
        same = left.tag == right.tag == "VALUE" and left.value[0] == right.value[0]
        if between.tag in ("AND", "WITH", "TO") and same and left.value != right.value:
            pair = Token("PAIR", (left.value, right.value), f"{left.text} and {right.text}")
            others = [e for e in (*found[:i], *found[i + 3 :]) if e.tag == "VALUE"]
            if any(each.value[0] == left.value[0] for each in others):
                raise MisfitError("I compare two groups, not more.")
            return (*found[:i], pair, *_pairs(found[i + 3 :]))
    return found


def _name_adjectives(found: Core, table: Table) -> Core:
    """Spell `older than 30` as a condition on the column of ages."""
    kept: list[Token] = []
    for token in found:
        if token.tag not in ("THAN", "AGED"):
            kept += month_tokens(token.text, table) if token.tag == "MONTH" else [token]
            continue
        noun = str(token.value).lstrip("<>")
        columns = [each for each in table.of_kind("number") if noun in words(each)]
        if len(columns) != 1:
            raise MisfitError(f"I don't know which column {code(token.text)} is about.")
        kept.append(Token("COL", columns[0], columns[0]))
        if token.tag == "THAN":
            kept.append(Token("OP", token.value[0], token.text))
    return tuple(kept)
