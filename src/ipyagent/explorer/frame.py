"""The frame of a question: conditions, groups and names are set apart, and a core of words is left.

Patterns over tags are regular expressions whose words are tags, such as `"STAT+ COL"`. What is
left of a prompt in no slot stays in the core, which has to match a row of `verbs.toml` whole: so
no word is dropped. A prompt that continues takes what it does not say from the frame before it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby, pairwise
from typing import Any

from ipyagent.explorer.lexer import Token
from ipyagent.explorer.text import code, codes, words
from ipyagent.schema.tables import ColumnFacts, Kind, TableFacts


class MisfitError(Exception):
    """The words are known, but do not fit this table; the text says why."""


@dataclass(frozen=True)
class Condition:
    """A test on a column; the sign may be `in`, `not in`, `null` or `known`.

    `part` is a part of its dates; "date" is all of it.
    """

    column: str
    sign: str
    value: Any = None
    part: str = ""

    def __str__(self) -> str:
        left = f"year of {self.column}" if self.part == "year" else self.column
        if self.sign in ("null", "known"):
            return f"{left} is {'missing' if self.sign == 'null' else 'known'}"
        if self.sign in ("in", "not in"):
            return f"{left} {self.sign} {', '.join(map(str, self.value))}"
        return f"{left} {'=' if self.sign == '==' else self.sign} {self.value}"


@dataclass
class Frame:
    """A question about a table, in its parts; `core` is what a verb has to match whole.

    `each` is the column whose values were listed with "and"; `period` groups by dates.
    """

    table: TableFacts
    core: list[Token] = field(default_factory=list)
    where: list[Condition] = field(default_factory=list)
    by: list[str] = field(default_factory=list)
    period: str = ""
    colour: list[str] = field(default_factory=list)
    each: str = ""
    named: list[Token] = field(default_factory=list)

    @property
    def tags(self) -> str:
        """The tags of the core, each with a space after it."""
        return _spell(self.core)

    @property
    def slots(self) -> set[str]:
        """The names of the slots that are filled."""
        return {name for name in ("where", "by", "period", "colour") if getattr(self, name)}

    def values(self, *tags: str) -> list[Any]:
        """Return the values of the core's tokens with these tags, in order."""
        return [token.value for token in self.core if token.tag in tags]

    def first(self, *tags: str, default: object = None) -> Any:
        """Return the value of the core's first token with one of these tags."""
        return next(iter(self.values(*tags)), default)

    def column(self, name: str) -> ColumnFacts:
        """Return the facts of a column."""
        return next(each for each in self.table.columns or () if each.name == name)

    def of_kind(self, *kinds: Kind) -> list[str]:
        """Return the columns of these kinds."""
        return [each.name for each in self.table.columns or () if each.kind in kinds]

    def one_date(self) -> str:
        """Return the only column of dates; raises MisfitError."""
        dates = self.of_kind("date")
        if len(dates) != 1:
            raise MisfitError(f"It takes one column of dates; I see {codes(dates) or 'none'}.")
        return dates[0]


def _spell(tokens: Sequence[Token]) -> str:
    return "".join(f"{each.tag} " for each in tokens)


@cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return the pattern with each tag spelled with the space that ends it."""
    spelled = re.sub(r"[A-Z]+", r"(?:\g<0>~)", pattern)
    return re.compile(f"(?<![A-Z])(?:{''.join(spelled.split()).replace('~', ' ')})")


_PLAIN = frozenset({"OF", "FROM", "IN", "IS", "HAS", "EQ", "COMMA", "THANKS"})
"""Words that only lead to a name: dropped once all clauses are found."""
_LEADS = "(WHERE|FROM|IN|OF|IS|KEEP)*"
_NOTHING = Token("", "", "")
_BARE = frozenset({"yes", "no", "true", "false", "y", "n"})
"""Values that mean nothing without their column."""
_VALUES = "NOT? VALUE ((AND|OR|VS)+ NOT? VALUE)*"
_CONTINUES = ({"STAT"}, {"COL"}, {"TOP", "NUMBER"}, {"TOP"}, {"CHART"}, {"END"}, {"NUMBER"})
"""Parts of a core that a prompt may exchange."""
_DRAWS = frozenset({"STAT", "COL", "COUNT"})


class FrameParser:
    """Takes the clauses of a prompt out of its tokens."""

    def __init__(self, tokens: Sequence[Token], table: TableFacts) -> None:
        self.frame, self.tokens = Frame(table), [*tokens]

    def parse(self, before: Frame | None = None) -> Frame:
        """Return the frame; raises MisfitError for names that do not fit."""
        self._end_sentences()
        self._set_names_apart()
        self._resolve_ambiguous()
        self._join_lists()
        first = self.tokens[0].tag if self.tokens else ""
        self._take_conditions()
        self._take_groups()
        followed = zip(self.tokens, [*self.tokens[1:], _NOTHING], strict=False)
        core = [t for t, then in followed if t.tag not in _PLAIN or _ends_open(t, then)]
        follows = bool(core[:1]) and core[0].tag in ("FOLLOW", "AND")
        self.frame.core = core[follows:]
        is_pronoun = "IT" in {each.tag for each in core}
        is_slot = bool(self.frame.slots & {"by", "period"}) or (
            before is not None and first in ("FROM", "IN", "WHERE", "KEEP")
        )
        is_slot = is_slot and not self.frame.core and not self.frame.named
        if follows or is_pronoun or is_slot:
            if before is None:
                raise MisfitError("I don't know what that continues; please say it in full.")
            return self._continue(before)
        if first in ("IS", "HAS"):
            self.frame.core.insert(0, Token("ASKS", "", ""))
        return self.frame

    def _end_sentences(self) -> None:
        """Drop the ends of sentences; raises MisfitError for more than one question."""
        runs = groupby(self.tokens, lambda token: token.tag == "STOP")
        sentences = [[*tokens] for is_end, tokens in runs if not is_end]
        naming = {"TABLE", "FILE", "FILES", "NOUN", *_PLAIN}
        said = [each for each in sentences if {t.tag for t in each} - naming]
        if len(said) > 1:
            raise MisfitError("One question at a time, please.")
        others = [t for each in sentences if each not in said for t in each]
        rest = [t for t in others if t.tag in ("TABLE", "FILE")]
        self.tokens = [*said[0], *rest] if said else others

    def _set_names_apart(self) -> None:
        """Take the table's name, and words that only say that a column is one."""
        table = self.frame.table
        mine = {("TABLE", table.variable), ("FILE", table.path)}
        kept: list[Token] = []
        for at, token in enumerate(self.tokens):
            beside = {t.tag for t in (*kept[-1:], *self.tokens[at + 1 : at + 2])}
            if (token.tag, token.value) in mine:
                self.frame.named.append(token)
            elif token.tag == "COLUMNS" and "COL" in beside:
                continue
            elif token.tag != "ROWS" or not kept or kept[-1].tag not in ("OF", "FROM", "VALUE"):
                kept.append(token)
        tags = {t.tag for t in kept} - _PLAIN
        if tags - {"NOUN"}:
            self.frame.named += [t for t in kept if t.tag == "NOUN"]
            kept = [t for t in kept if t.tag != "NOUN"]
        self.tokens = kept

    def _resolve_ambiguous(self) -> None:
        """Choose what a word names by the column beside it, or the only one that has it."""
        for at, token in enumerate(self.tokens):
            if token.tag != "AMBIGUOUS":
                continue
            beside = {t.value for t in self.tokens if t.tag == "COL"}
            fitting = [v for tag, v in token.value if tag == "VALUE" and v[0] in beside]
            if len(fitting) != 1:
                meant = dict.fromkeys(
                    v if tag == "COL" else str(v[0] if tag == "VALUE" else v)
                    for tag, v in token.value
                )
                raise MisfitError(f"{code(token.text)} may mean {codes(meant)}: please name one.")
            self.tokens[at] = Token("VALUE", fitting[0], token.text)

    def _join_lists(self) -> None:
        """Make commas in lists an "and", and drop those between clauses."""
        made: list[Token] = []
        for at, token in enumerate(self.tokens):
            after = self.tokens[at + 1 : at + 2]
            if token.tag == "COMMA":
                is_list = made and after and made[-1].tag == after[0].tag
                made += [Token("AND", "", ",")] * bool(is_list)
            else:
                made.append(token)
        self.tokens = made

    # Clauses.

    def _find(self, pattern: str) -> tuple[int, int] | None:
        tags = _spell(self.tokens)
        for found in compile_pattern(pattern).finditer(tags):
            if found[0]:
                start = tags[: found.start()].count(" ")
                return start, start + found[0].count(" ")
        return None

    def _take(self, pattern: str, mark: str = "") -> list[Token]:
        """Take the first tokens that match, and leave a mark in their place."""
        found = self._find(pattern)
        if found is None:
            return []
        start, end = found
        taken = self.tokens[start:end]
        self.tokens[start:end] = [Token(mark, "", "")] if mark else []
        return taken

    def _take_conditions(self) -> None:
        amount = "(NUMBER|DATE)"
        times = {*self.frame.of_kind("date"), *self._years()}
        for at, (before, token) in enumerate(pairwise(self.tokens), 1):
            if token.tag == "WHEN" and before.tag == "COL" and before.value in times:
                self.tokens[at] = replace(token, tag="OP")
        while taken := self._take(f"COL IS? BETWEEN {amount} AND {amount}", "COND"):
            low, high = [t.value for t in taken if t.tag in ("NUMBER", "DATE")]
            self._add(taken[0].value, ">=", low)
            self._add(taken[0].value, "<=", high)
        while taken := self._take(f"COL (IS|HAS|OF)? OP {amount}", "COND"):
            self._add(taken[0].value, taken[-2].value, taken[-1].value)
        while taken := self._take("WHERE COL IS? NOT? (MISSING|KNOWN)", "COND"):
            tags = {t.tag for t in taken}
            is_null = ("MISSING" in tags) != ("NOT" in tags)
            self._add(taken[1].value, "null" if is_null else "known")
        while taken := self._take("COL (IS|EQ)+ NOT? (NUMBER|QUOTED|BOOL|DATE)", "COND"):
            value = taken[-1].value == "true" if taken[-1].tag == "BOOL" else taken[-1].value
            self._add(taken[0].value, "!=" if taken[-2].tag == "NOT" else "==", value)
        while found := self._find(_VALUES):
            start, end = found
            columns = self._add_values(self.tokens[start:end])
            lead = start
            while lead and self.tokens[lead - 1].tag in ("IS", "EQ", "FROM", "IN"):
                lead -= 1
            name = columns[0] if len(columns) == 1 else ""
            is_bare = self.tokens[start].text.casefold() in _BARE
            if self._is_column(lead - 1, name):
                start = lead - 1
            elif is_bare and not self._is_column(end, name):
                raise MisfitError(f"{code(self.tokens[start].text)} of which column?")
            end += is_bare and start != lead - 1
            self.tokens[start:end] = [Token("COND", "", "")]
        while taken := self._take(f"(IN|WHEN) {amount}", "COND"):
            self._add_time(taken[0], taken[1].value)
        fixed = [each.column for each in self.frame.where if each.sign == "=="]
        if len(fixed) > len({*fixed}):
            raise MisfitError("No row has two values in one column.")
        while self._take(f"{_LEADS} COND (AND? {_LEADS} COND)*"):
            pass

    def _is_column(self, at: int, name: str) -> bool:
        return [(t.tag, t.value) for t in self.tokens[max(at, 0) :][:1]] == [("COL", name)]

    def _add(self, column: str, sign: str, value: object = None) -> None:
        kind = self.frame.column(column).kind
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and is_number != (kind == "number"):
            raise MisfitError(f"{code(column)} does not compare with {code(str(value))}.")
        if sign in ("<", "<=", ">", ">=") and kind not in ("number", "date"):
            raise MisfitError(f"{code(column)} has no order.")
        part = "date" if kind == "date" and value is not None else ""
        self.frame.where.append(Condition(column, sign, value, part))

    def _add_values(self, taken: list[Token]) -> list[str]:
        """Add the condition that these values stand for; return their columns."""
        values = [t.value for t in taken if t.tag == "VALUE"]
        columns, tags = list(dict.fromkeys(column for column, _ in values)), {t.tag for t in taken}
        said = list(dict.fromkeys(value for _, value in values))
        if len(columns) > 1:
            if tags & {"AND", "OR", "VS", "NOT"}:
                raise MisfitError("Please say each condition in full.")
            self.frame.where += [Condition(column, "==", value) for column, value in values]
            return columns
        is_not = "NOT" in tags
        if len(said) == 1:
            self.frame.where.append(Condition(columns[0], "!=" if is_not else "==", said[0]))
            return columns
        self.frame.where.append(Condition(columns[0], "not in" if is_not else "in", said))
        self.frame.each = "" if is_not or "OR" in tags else columns[0]
        if "VS" in tags:
            self.tokens.append(Token("COMPARE", "", ""))
        return columns

    def _years(self) -> list[str]:
        return [c for c in self.frame.of_kind("number") if words(c)[-1:] == ("year",)]

    def _add_time(self, lead: Token, value: object) -> None:
        """Add a condition on a year or a day, which the column of years or dates has to meet."""
        is_year = isinstance(value, int) and 1000 < value < 3000
        if isinstance(value, int | float) and not is_year:
            raise MisfitError(f"I don't know what {code(str(value))} counts.")
        years, sign = self._years() if is_year else [], lead.value or "=="
        if len(years) == 1:
            self.frame.where.append(Condition(years[0], sign, value))
        else:
            part = "year" if is_year else "date"
            self.frame.where.append(Condition(self.frame.one_date(), sign, value, part))

    def _take_groups(self) -> None:
        if taken := self._take("COLOUR COL"):
            self.frame.colour = [taken[1].value]
        if taken := self._take("PERIODLY"):
            self.frame.period = taken[0].value
        tags = {t.tag for t in self.tokens}
        if tags & {"SORT", "TOP"}:
            return
        if taken := self._take("BY (COL|PERIOD) (AND BY? (COL|PERIOD))*"):
            self.frame.by = [t.value for t in taken if t.tag == "COL"]
            periods = [t for t in taken if t.tag == "PERIOD"]
            for each in periods:
                years = self._years() if each.value == "year" else []
                if len(years) == 1:
                    self.frame.by.append(years[0])
                elif self.frame.period:
                    raise MisfitError("I can group by one period only.")
                else:
                    self.frame.period = each.value
        elif "COMPARE" in tags and (taken := self._take("BETWEEN COL")):
            self.frame.by = [taken[1].value]
        elif self._find("BY ROWS"):
            raise MisfitError("Group by which column?")

    # A prompt that continues.

    def _continue(self, before: Frame) -> Frame:
        """Return the frame before, with what this prompt says in the place of the same part."""
        new = self.frame
        if new.table != before.table:
            raise MisfitError("That continues a question about another table; say it in full.")
        core = [t for t in new.core if t.tag not in ("IT", "NOUN", "ROWS")]
        tags = {t.tag for t in core}
        changed = {condition.column for condition in new.where}
        made = replace(
            before,
            where=[c for c in before.where if c.column not in changed] + new.where,
            by=new.by or before.by,
            period=new.period or ("" if new.by else before.period),
            colour=new.colour or before.colour,
            each=new.each or ("" if changed else before.each),
            named=[*before.named, *new.named],
        )
        if new.period and not new.by:
            made.by = []
        if not core:
            return made
        own = {t.tag for t in before.core}
        for kinds in _CONTINUES:
            if tags - {"AND"} == kinds and kinds <= own:
                return replace(made, core=_exchange(before.core, core, kinds))
        if tags <= {"PLOT", "CHART"}:
            return replace(made, core=[*core, *(t for t in before.core if t.tag in _DRAWS)])
        if "IT" in {t.tag for t in new.core} and not (own & _DRAWS):
            return replace(made, core=core)
        raise MisfitError("I don't know how that continues the question before; say it in full.")


def _ends_open(token: Token, then: Token) -> bool:
    """Return whether a word is not empty here: `how many have a sex` counts the known ones."""
    return (token.tag, then.tag) == ("HAS", "COL")


def _exchange(old: Sequence[Token], new: Sequence[Token], kinds: set[str]) -> list[Token]:
    """Return the old tokens with the new ones in the place of the ones of these kinds."""
    places = [i for i, token in enumerate(old) if token.tag in kinds]
    first, last = places[0], places[-1]
    kept = [t for t in old[first : last + 1] if t.tag not in kinds and t.tag != "AND"]
    return [*old[:first], *new, *kept, *old[last + 1 :]]
