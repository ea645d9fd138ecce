"""Clauses of a sentence: each takes its tokens, and returns what shall stand in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ipyagent.explorer.chunks import Token
from ipyagent.explorer.frame import Frame, Tokens
from ipyagent.explorer.markdown import code, codes
from ipyagent.explorer.names import split_name, words
from ipyagent.explorer.snippets import Condition
from ipyagent.explorer.steps import MisfitError
from ipyagent.explorer.workspace import Table

_SIGN = r"(OP|OVER|AFTER)"
_LEADING = ("IN", "ON", "FOR", "WITH", "OF", "WHERE")


class Clauses:
    """One sentence about a table: the tokens that are left, and the frame that they fill."""

    def __init__(self, tokens: Sequence[Token], table: Table) -> None:
        self.table = table
        self.rest = list(tokens)
        self.frame = Frame()
        self.original: Tokens = []
        self.places: list[tuple[int, bool]] = []  # of the conditions, and if a preposition leads

    def condition(self, part: Tokens, at: int) -> Tokens | None:
        """Take conditions on one column: `a over 3`, `a between 1 and 2`, `more than 3 a`."""
        column = next((t.value for t in part if t.tag == "COL"), None)
        numbers = [t for t in part if t.tag in ("NUMBER", "DATE", "VALUE", "QUOTED", "BOOL")]
        sign = next((t.value for t in part if t.tag in ("OP", "AFTER")), None)
        sign = ">" if sign is None and any(t.tag == "OVER" for t in part) else sign
        negated = any(t.tag == "NOT" for t in part)
        if column and self._is_about_time(column, part, numbers):
            rest = [t for t in part if t.tag != "COL"]  # mean revenue since 2024
            return [next(t for t in part if t.tag == "COL"), *rest]
        if any(t.tag == "BETWEEN" for t in part) or (len(numbers) == 2 and sign is None):
            self.add(column, ">=", numbers[0], part, at)
            self.add(column, "<=", numbers[1], part, at)
        elif best := next((t for t in part if t.tag in ("BEST", "MEASURES")), None):
            sign = sign or (">" if best.value[0] == "max" else "<")
            self.add(column or self.measure(best), sign, numbers[0], part, at)
        else:
            self.add(column, sign or ("!=" if negated else "=="), numbers[0], part, at)
        return None

    def _is_about_time(self, column: str, part: Tokens, numbers: Tokens) -> bool:
        """Return whether dates or years beside a column of numbers are no values of it."""
        if self.table.kind(column) != "number" or "year" in split_name(column):
            return False
        tags, years = {t.tag for t in part}, [t.value for t in numbers if t.tag == "NUMBER"]
        computes = any(t.tag in ("STAT", "EXTREME") for t in self.original)
        is_span = len(numbers) == 2 and "BETWEEN" not in tags
        is_year = all(1000 <= each < 3000 for each in years)
        return "DATE" in tags or (is_year and computes and ("AFTER" in tags or is_span))

    def add(self, column: str | None, sign: str, token: Token, part: Tokens, at: int) -> None:
        """Add a condition, on the column that the value belongs to if none is named."""
        value = token.value
        if token.tag == "VALUE":
            if column not in (None, value[0]):
                raise MisfitError(f"{code(token.text)} is no value of {code(str(column))}.")
            column, value = value
        if token.tag == "BOOL":
            value = value == "true"
        if column is None:
            column = self._implied_column(token, part, sign)
        if column is None:
            raise MisfitError(f"I don't know which column {code(token.text)} is about.")
        kind = self.table.kind(column)
        is_date = column in self.table.date_columns
        if is_date and token.tag == "NUMBER" and 1000 <= value < 3000:
            self._where(Condition(column, sign, value, "year"), part, at)
            return
        fits = {
            "VALUE": True, "QUOTED": kind == "text", "NUMBER": kind == "number",
            "DATE": kind == "date" or is_date, "BOOL": kind == "bool",
        }[token.tag]  # fmt: skip
        if not fits:
            dtype = (self.table.columns or {}).get(column, "unknown")
            raise MisfitError(f"{code(column)} is {dtype}; {code(token.text)} doesn't fit it.")
        self._where(Condition(column, sign, value), part, at)

    def _implied_column(self, token: Token, part: Tokens, sign: str) -> str | None:
        tags = {t.tag for t in part}
        if token.tag == "DATE":
            return _one(self.table.date_columns)
        if token.tag != "NUMBER":
            return None
        numbers = self.table.of_kind("number")
        if "YEARSOLD" in tags:
            return _one(c for c in numbers if "age" in split_name(c))
        if (
            isinstance(token.value, int)
            and 1000 <= token.value < 3000
            and (tags & {"AFTER", "TO"} or sign == "==")
        ):
            years = [c for c in numbers if "year" in split_name(c)]
            return _one(years) or (None if years else _one(self.table.date_columns))
        if "AFTER" not in tags and "VALUE" in {t.tag for t in self.rest} | tags:
            return _one(c for c in numbers if "age" in split_name(c))
        return None

    def _where(self, condition: Condition, part: Tokens, at: int) -> None:
        where = self.frame.where
        same = [c for c in where if c.column == condition.column and c.part == condition.part]
        if any(c.sign == "==" == condition.sign for c in same):
            raise MisfitError("No row can have two values in one column; compare them instead.")
        where.append(condition)
        place = next((i for i, t in enumerate(self.original) if t is part[-1]), 0)
        self.places.append((place, part[0].tag in _LEADING))

    def values(self, part: Tokens, at: int) -> Tokens | None:
        """Take values that rows may have: one, `a or b`, `not a`."""
        found = [t.value for t in part if t.tag == "VALUE"]
        columns = list(dict.fromkeys(column for column, _ in found))
        negated = any(t.tag in ("NOT", "WITHOUT") for t in part)
        if len(columns) > 1:
            if negated or any(t.tag == "OR" for t in part):
                raise MisfitError(f"I can't tell how {codes(columns)} belong together here.")
            for token in part:
                if token.tag == "VALUE":
                    self.add(None, "==", token, part, at)
            return None
        if len(found) == 1:
            self.add(
                None, "!=" if negated else "==", next(t for t in part if t.tag == "VALUE"), part, at
            )
            return None
        chosen = [value for _, value in dict.fromkeys(found)]
        self._where(Condition(columns[0], "not in" if negated else "in", chosen), part, at)
        if not any(t.tag == "OR" for t in part) and columns[0] not in self.frame.by and not negated:
            self.frame.by.append(columns[0])
        return None

    def pair(self, part: Tokens, at: int) -> Tokens:
        """Take two values of a column that are compared."""
        one, other = (t for t in part if t.tag == "VALUE")
        if one.value[0] != other.value[0]:
            raise MisfitError("I compare two values of the same column.")
        rest = [
            t
            for t in part
            if t.tag not in ("VALUE", "AND", "OR", "VS", "THAN", "TO", "COMMA", "BETWEEN")
        ]
        return [*rest, Token("PAIR", (one.value, other.value), f"{one.text} and {other.text}")]

    def gap(self, part: Tokens, at: int) -> None:
        """Take `without an altitude`, `with a known sex`."""
        column = next(t.value for t in part if t.tag == "COL")
        sign = "known" if any(t.tag == "KNOWN" for t in part) else "null"
        self._where(Condition(column, sign), part, at)

    def month(self, part: Tokens, at: int) -> None:
        """Take `in June 2024`."""
        month = next(t.value for t in part if t.tag == "MONTH")
        found, own = (
            self.table.date_columns,
            [c for c in self.table.of_kind("number") if words(c) == ("month",)],
        )
        if own:
            self._where(Condition(own[0], "==", month), part, at)
        elif len(found) == 1:
            self._where(Condition(found[0], "==", month, "month"), part, at)
        else:
            raise MisfitError(f"{code(self.table.name)} has {len(found) or 'no'} columns of dates.")
        if year := next((t.value for t in part if t.tag == "NUMBER"), None):
            token = next(t for t in part if t.tag == "NUMBER")
            column = self._implied_column(token, part, "==")
            if column is None:
                raise MisfitError(f"I don't know which column {code(str(year))} is about.")
            self.add(column, "==", token, part, at)

    def groups(self, part: Tokens, at: int) -> None:
        """Take `by a and b`, `for each c`, `per month`."""
        for token in part:
            if token.tag == "COL" and token.value not in self.frame.by:
                self.frame.by.append(token.value)
            elif token.tag in ("PERIOD", "PERIODLY"):
                self._period(token.value)

    def _period(self, period: str) -> None:
        own = [c for c in self.table.columns or {} if words(c) == (period,)]
        if own:
            self.frame.by += own
        else:
            self.frame.period = period

    def trend(self, part: Tokens, at: int) -> Tokens:
        """Take `over time`, `over the years`: along the only date, or the years."""
        years = [c for c in self.table.of_kind("number") if words(c) == ("year",)]
        along = _one(self.table.date_columns) or _one(years)
        if along is None:
            raise MisfitError(f"I see no column of dates or years in {code(self.table.name)}.")
        return [Token("OVER", "", ""), Token("COL", along, along)]

    def tint(self, part: Tokens, at: int) -> None:
        """Take `coloured by c`."""
        self.frame.colour = part[-1].value

    def rounding(self, part: Tokens, at: int) -> None:
        """Take `rounded to two decimals`."""
        digits = next((t.value for t in part if t.tag == "NUMBER"), 0)
        if not (isinstance(digits, int) and 0 <= digits <= 12):
            raise MisfitError("I can round to 0 to 12 decimals.")
        self.frame.digits = digits

    def sorting(self, part: Tokens, at: int) -> Tokens:
        """Take `sorted by a, descending`."""
        column = next((t.value for t in part if t.tag == "COL"), None)
        end = next((t.value for t in part if t.tag in ("ORDER", "EXTREME")), "up")
        if column is None:
            raise MisfitError("Sort by which column?")
        self.frame.order = (column, "max" if end in ("down", "max") else "min")
        return [t for t in part if t.tag == "SORT"][:1]

    def number_option(self, part: Tokens, at: int) -> None:
        """Take a significance level, or a threshold of outliers."""
        name = next(t.tag for t in part if t.tag in ("ALPHA", "THRESHOLD", "TIMESIQR"))
        number = next(t.value for t in part if t.tag == "NUMBER")
        self.frame.options["IQR" if name == "TIMESIQR" else name] = number
        if name == "TIMESIQR":
            self.frame.options["THRESHOLD"] = number

    def superlative(self, part: Tokens, at: int) -> Tokens:
        """Take `oldest`: the end that it means, and the column that measures it."""
        (token,) = part
        near = [
            t
            for t in self.rest[at : at + 2]
            if t.tag == "COL" and self.table.kind(t.value) == "number"
        ]
        if near:  # the slowest half time: the lowest or the highest of what is named
            end = self._end_of(token, near[0].value)
            return [Token("EXTREME", end, token.text)]
        end = token.value[0]
        try:
            column = self.measure(token)
        except MisfitError:
            years = [
                c
                for c in self.table.of_kind("number")
                if set(split_name(c)) & {"year", "built", "born"}
            ]
            if token.value[1] != ("age",) or len(years) != 1:
                raise
            column, end = (
                years[0],
                "min" if end == "max" else "max",
            )  # the oldest: of the first year
        return [Token("BESTEND", end, token.text), Token("COL", column, token.text)]

    def _end_of(self, token: Token, column: str) -> str:
        """Return the end of a column that an adjective before it means."""
        end, measures = token.value
        own = {*split_name(column), *words(column)}
        other = "min" if end == "max" else "max"
        if own & set(measures) or measures[0] in ("length", "age", "price", "date", "year"):
            return str(end)
        if (
            measures[0] == "speed"
            and own & {"time", "duration", "min", "minutes", "sec", "seconds", "hours"}
        ) or (measures[0] == "speed" and column.casefold().endswith(("min", "sec", "time"))):
            return other
        offers = tuple((token.text, each) for each in ("highest", "lowest"))
        raise MisfitError(f"Is the {token.text} {code(column)} the highest or the lowest?", offers)

    def measure(self, token: Token) -> str:
        """Return the column that an adjective is about; raises MisfitError if it is not one."""
        _, measures = token.value
        columns = [c for c in self.table.columns or {} if self.table.kind(c) in ("number", "date")]
        columns += [c for c in self.table.date_columns if c not in columns]
        for wanted in (measures[:2], measures):
            found = [c for c in columns if set(split_name(c)) & set(wanted)]
            if len(found) == 1:
                return found[0]
            if found:
                break
        end = "highest" if token.value[0] == "max" else "lowest"
        among = found or self.table.of_kind("number")
        offers = tuple((token.text, f"{end} {code(c)}") for c in among[:3])
        raise MisfitError(f"Which column says what is {token.text}?", offers)


def _one(found: Iterable[str]) -> str | None:
    columns = list(found)
    return columns[0] if len(columns) == 1 else None


_LEAD = "(AND? (WHERE|WITH|HAS|IN|ON|OF|FOR|KEEP)* )"
_N = "(NUMBER|DATE)"
PAIRED = {"COMPARE", "DIFFERENCE", "TTEST", "VS", "HIGHER", "MORE", "BEST", "WELCH"}

Handler = Callable[[Clauses, Tokens, int], Tokens | None]
_C = Clauses
_BETWEEN = "(AND|OR|VS|THAN|TO|COMMA|HIGHER|MORE|BEST|WITH|IN|FOR|COL|STAT|OF|IS)*"
COMPARED: tuple[tuple[str, Handler], ...] = (
    (f"(BETWEEN|OF|FOR|IN)? VALUE {_BETWEEN} VALUE", _C.pair),
)
CLAUSES: tuple[tuple[str, Handler], ...] = (
    ("WITH? KNOWN COL", _C.gap),
    (
        "AND? (WITH|AT)? (A)? (ALPHA|THRESHOLD) (OF|IS|EQ|AT)* NUMBER | NUMBER TIMESIQR",
        _C.number_option,
    ),
    (
        "AND? (ROUND|TO|WITH)* TO? NUMBER DECIMALS | (AND? ROUND)? TO? (WHOLE) | AND? ROUND",
        _C.rounding,
    ),
    ("TREND", _C.trend),
    ("AND? COLOUR (BY)? COL", _C.tint),
    (
        "AND? SORT (ROWS)? (BY|ON)? COL (IN? (ORDER|EXTREME) (SORT)?)? | (ORDER) (SORT|BY) COL",
        _C.sorting,
    ),
    (f"{_LEAD} COL (IS|HAS|OF|IN)* (BETWEEN)? {_N} (AND|TO) {_N}", _C.condition),
    (f"{_LEAD} IS? (AGED)? BETWEEN {_N} (AND|TO) {_N} (YEARSOLD|COL)?", _C.condition),
    (f"{_LEAD} COL (IS|HAS|OF|EQ)* NOT? {_SIGN} {_N}", _C.condition),
    (f"{_LEAD} IS? BEST THAN {_N} (YEARSOLD)?", _C.condition),
    (f"{_LEAD} MEASURES {_SIGN} {_N}", _C.condition),
    (f"{_LEAD} IS? {_SIGN} {_N} OF? COL", _C.condition),
    (f"{_LEAD} COL (IS|EQ)+ NOT? (VALUE|QUOTED|BOOL|DATE|NUMBER)", _C.condition),
    (f"{_LEAD} COL NOT? (VALUE|QUOTED|BOOL)", _C.condition),
    ("AND? (WITH|HAS|FOR|IN|OF) NUMBER COL | (IN|FOR|WITH|OF) COL NUMBER", _C.condition),
    ("WITHOUT (KNOWN|MISSING)? COL | (WITH|HAS) KNOWN COL", _C.gap),
    (f"{_LEAD} IS? {_SIGN} {_N} (YEARSOLD)?", _C.condition),
    (f"{_LEAD} (SINCE)? MONTH NUMBER?", _C.month),
    (f"IN? {_N} TO {_N}", _C.condition),
    ("(IN|FOR|OF|WHERE|KEEP) NUMBER", _C.condition),
    ("PERIODLY", _C.groups),
    ("AND? BY (PERIOD|COL) ((AND|BY|COMMA) (PERIOD|COL))* ", _C.groups),
    (f"{_LEAD} TO? IS? (NOT|WITHOUT)* VALUE ((COMMA|AND|OR)* VALUE)* ", _C.values),
    ("BEST", _C.superlative),
)
