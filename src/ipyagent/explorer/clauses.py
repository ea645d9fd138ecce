"""Clauses of a sentence: each takes its tokens, and returns what shall stand in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ipyagent.explorer.frame import Condition, Frame, Token, Tokens, first_of, has, values_of
from ipyagent.explorer.markdown import code, codes
from ipyagent.explorer.names import split_name, words
from ipyagent.explorer.workspace import MisfitError, Table, refuse_if

_SIGN = r"(OP|OVER|AFTER)"
_LEADING = ("IN", "ON", "FOR", "WITH", "OF", "WHERE")


class Clauses:
    """One sentence about a table: the tokens that are left, and the frame that they fill."""

    def __init__(self, tokens: Sequence[Token], table: Table) -> None:
        self.table = table
        self.rest = list(tokens)
        self.at = 0  # where the clause was that is handled
        self.frame = Frame()
        self.original: Tokens = []
        self.places: list[tuple[int, bool]] = []  # of the conditions, and if a preposition leads

    def condition(self, part: Tokens) -> Tokens | None:
        """Take conditions on one column: `a over 3`, `a between 1 and 2`, `more than 3 a`."""
        column = first_of(part, "COL")
        numbers = [t for t in part if t.tag in ("NUMBER", "DATE", "VALUE", "QUOTED", "BOOL")]
        sign = first_of(part, "OP", "AFTER", default=">" if has(part, "OVER") else None)
        if column and self._is_about_time(column, part, numbers):
            return sorted(part, key=lambda t: t.tag != "COL")  # mean revenue since 2024
        if has(part, "BETWEEN") or (len(numbers) == 2 and sign is None):
            self.add(column, ">=", numbers[0], part)
            self.add(column, "<=", numbers[1], part)
            return None
        if best := next((t for t in part if t.tag in ("BEST", "MEASURES")), None):
            sign = sign or (">" if best.value[0] == "max" else "<")
            column = column or self.measure(best)
        self.add(column, sign or ("!=" if has(part, "NOT") else "=="), numbers[0], part)
        return None

    def _is_about_time(self, column: str, part: Tokens, numbers: Tokens) -> bool:
        """Return whether dates or years beside a column of numbers are no values of it."""
        if self.table.kind(column) != "number" or "year" in split_name(column):
            return False
        computes, is_date = has(self.original, "STAT", "EXTREME"), has(part, "DATE")
        is_span = len(numbers) == 2 and not has(part, "BETWEEN")
        is_year = all(_is_year(each) for each in numbers if each.tag == "NUMBER")
        return is_date or (is_year and computes and (has(part, "AFTER") or is_span))

    def add(self, column: str | None, sign: str, token: Token, part: Tokens) -> None:
        """Add a condition, on the column that the value belongs to if none is named."""
        value = token.value
        if token.tag == "VALUE":
            if column not in (None, value[0]):
                raise MisfitError(f"{code(token.text)} is no value of {code(str(column))}.")
            column, value = value
        if token.tag == "BOOL":
            value = value == "true"
        column = column or self._implied_column(token, part, sign)
        if column is None:
            raise MisfitError(f"I don't know which column {code(token.text)} is about.")
        kind, is_date = self.table.kind(column), column in self.table.date_columns
        if is_date and token.tag == "NUMBER" and 1000 <= value < 3000:
            self._where(Condition(column, sign, value, "year"), part)
            return
        fits = {
            "VALUE": True, "QUOTED": kind == "text", "NUMBER": kind == "number",
            "DATE": kind == "date" or is_date, "BOOL": kind == "bool",
        }[token.tag]  # fmt: skip
        if not fits:
            is_, of = code(column), code(token.text)
            raise MisfitError(f"{is_} is {self.table.dtype(column)}; {of} doesn't fit it.")
        self._where(Condition(column, sign, value), part)

    def _implied_column(self, token: Token, part: Tokens, sign: str) -> str | None:
        if token.tag == "DATE":
            return _one(self.table.date_columns)
        if token.tag != "NUMBER":
            return None
        numbers = self.table.of_kind("number")
        ages = _one(c for c in numbers if "age" in split_name(c))
        if has(part, "YEARSOLD"):
            return ages
        if _is_year(token) and (has(part, "AFTER", "TO") or sign == "=="):
            years = [c for c in numbers if "year" in split_name(c)]
            return _one(years or self.table.date_columns)
        return ages if not has(part, "AFTER") and has([*self.rest, *part], "VALUE") else None

    def _where(self, condition: Condition, part: Tokens) -> None:
        where = self.frame.where
        same = [c for c in where if c.column == condition.column and c.part == condition.part]
        if any(c.sign == "==" == condition.sign for c in same):
            raise MisfitError("No row can have two values in one column; compare them instead.")
        where.append(condition)
        place = next((i for i, t in enumerate(self.original) if t is part[-1]), 0)
        self.places.append((place, part[0].tag in _LEADING))

    def values(self, part: Tokens) -> None:
        """Take values that rows may have: one, `a or b`, `not a`."""
        found = [t for t in part if t.tag == "VALUE"]
        columns = list(dict.fromkeys(t.value[0] for t in found))
        negated, either = has(part, "NOT", "WITHOUT"), has(part, "OR")
        if len(columns) > 1 and (negated or either):
            raise MisfitError(f"I can't tell how {codes(columns)} belong together here.")
        if len(columns) > 1 or len(found) == 1:
            for token in found:
                self.add(None, "!=" if negated else "==", token, part)
            return
        chosen = [value for _, value in dict.fromkeys(t.value for t in found)]
        self._where(Condition(columns[0], "not in" if negated else "in", chosen), part)
        if not (either or negated or columns[0] in self.frame.by):
            self.frame.by.append(columns[0])

    def pair(self, part: Tokens) -> Tokens:
        """Take two values of a column that are compared."""
        one, other = (t for t in part if t.tag == "VALUE")
        refuse_if(one.value[0] != other.value[0], "I compare two values of the same column.")
        gone = ("VALUE", "AND", "OR", "VS", "THAN", "TO", "COMMA", "BETWEEN")
        pair = Token("PAIR", (one.value, other.value), f"{one.text} and {other.text}")
        return [*(t for t in part if t.tag not in gone), pair]

    def gap(self, part: Tokens) -> None:
        """Take `without an altitude`, `with a known sex`."""
        sign = "known" if has(part, "KNOWN") else "null"
        self._where(Condition(first_of(part, "COL"), sign), part)

    def month(self, part: Tokens) -> None:
        """Take `in June 2024`."""
        month, found = first_of(part, "MONTH"), self.table.date_columns
        own = [c for c in self.table.of_kind("number") if words(c) == ("month",)]
        if not own and len(found) != 1:
            raise MisfitError(f"{code(self.table.name)} has {len(found) or 'no'} columns of dates.")
        column, of = (own[0], "") if own else (found[0], "month")
        self._where(Condition(column, "==", month, of), part)
        for year in (t for t in part if t.tag == "NUMBER"):
            self.add(None, "==", year, part)

    def groups(self, part: Tokens) -> None:
        """Take `by a and b`, `for each c`, `per month`."""
        by = self.frame.by
        for token in part:
            if token.tag == "COL" and token.value not in by:
                by.append(token.value)
            elif token.tag in ("PERIOD", "PERIODLY"):
                own = [c for c in self.table.columns or {} if words(c) == (token.value,)]
                by += own
                self.frame.period = self.frame.period if own else token.value

    def trend(self, part: Tokens) -> Tokens:
        """Take `over time`, `over the years`: along the only date, or the years."""
        years = [c for c in self.table.of_kind("number") if words(c) == ("year",)]
        along = _one(self.table.date_columns) or _one(years)
        if along is None:
            raise MisfitError(f"I see no column of dates or years in {code(self.table.name)}.")
        return [Token("OVER", "", ""), Token("COL", along, along)]

    def tint(self, part: Tokens) -> None:
        """Take `coloured by c`."""
        self.frame.colour = [part[-1].value]

    def rounding(self, part: Tokens) -> None:
        """Take `rounded to two decimals`."""
        digits = first_of(part, "NUMBER", default=self.frame.digits or 0)
        if not (isinstance(digits, int) and 0 <= digits <= 12):
            raise MisfitError("I can round to 0 to 12 decimals.")
        self.frame.digits = digits

    def sorting(self, part: Tokens) -> Tokens:
        """Take `sorted by a, descending`."""
        end = "max" if first_of(part, "ORDER", "EXTREME") in ("down", "max") else "min"
        self.frame.order = (first_of(part, "COL"), end)
        return [t for t in part if t.tag == "SORT"][:1]

    def number_option(self, part: Tokens) -> None:
        """Take a significance level, or a threshold of outliers."""
        number = first_of(part, "NUMBER")
        if has(part, "TIMESIQR"):
            self.frame.options |= {"IQR": number, "THRESHOLD": number}
        else:
            self.frame.options["ALPHA" if has(part, "ALPHA") else "THRESHOLD"] = number

    def superlative(self, part: Tokens) -> Tokens:
        """Take `oldest`: the end that it means, and the column that measures it."""
        (token,) = part
        near = values_of(self.rest[self.at : self.at + 2], "COL")
        for column in (c for c in near if self.table.kind(c) == "number"):
            # the slowest half time: the lowest or the highest of what is named
            return [Token("EXTREME", self._end_of(token, column), token.text)]
        end, other = _ends(token)
        try:
            column = self.measure(token)
        except MisfitError:
            born = {"year", "built", "born"}
            years = [c for c in self.table.of_kind("number") if born & {*split_name(c)}]
            if token.value[1] != ("age",) or len(years) != 1:
                raise
            column, end = years[0], other  # the oldest: of the first year
        return [Token("BESTEND", end, token.text), Token("COL", column, token.text)]

    def _end_of(self, token: Token, column: str) -> str:
        """Return the end of a column that an adjective before it means."""
        (end, other), measures = _ends(token), token.value[1]
        own = {*split_name(column), *words(column)}
        if own & set(measures) or measures[0] in ("length", "age", "price", "date", "year"):
            return end
        times = {"time", "duration", "min", "minutes", "sec", "seconds", "hours"}
        is_time = own & times or column.casefold().endswith(("min", "sec", "time"))
        if measures[0] == "speed" and is_time:
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


def _ends(token: Token) -> tuple[str, str]:
    """Return the end that an adjective means, and the other one."""
    return ("max", "min") if token.value[0] == "max" else ("min", "max")


def _is_year(token: Token) -> bool:
    return isinstance(token.value, int) and 1000 <= token.value < 3000


_LEAD = "(AND? (WHERE|WITH|HAS|IN|ON|OF|FOR|KEEP)* )"
_N = "(NUMBER|DATE)"
PAIRED = {"COMPARE", "DIFFERENCE", "TTEST", "VS", "HIGHER", "MORE", "BEST", "WELCH"}

Handler = Callable[[Clauses, Tokens], Tokens | None]
_C = Clauses
_BETWEEN = "(AND|OR|VS|THAN|TO|COMMA|HIGHER|MORE|BEST|WITH|IN|FOR|COL|STAT|OF|IS)*"
COMPARED: tuple[tuple[str, Handler], ...] = (
    (f"(BETWEEN|OF|FOR|IN)? VALUE {_BETWEEN} VALUE", _C.pair),
)
CLAUSES: tuple[tuple[str, Handler], ...] = (
    ("WITH? KNOWN COL", _C.gap),
    ("AND? (WITH|AT)? A? (ALPHA|THRESHOLD) (OF|IS|EQ|AT)* NUMBER", _C.number_option),
    ("NUMBER TIMESIQR", _C.number_option),
    ("AND? (ROUND|TO|WITH)* TO? NUMBER DECIMALS", _C.rounding),
    ("(AND? ROUND)? TO? WHOLE | AND? ROUND", _C.rounding),
    ("TREND", _C.trend),
    ("AND? COLOUR BY? COL", _C.tint),
    ("AND? SORT ROWS? (BY|ON)? COL (IN? (ORDER|EXTREME) SORT?)?", _C.sorting),
    ("ORDER (SORT|BY) COL", _C.sorting),
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
