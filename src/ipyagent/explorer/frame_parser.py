"""Parse a sentence into its frame: brackets, options, clauses, and the core that is left.

A clause takes its tokens away, and may leave others in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ipyagent.explorer.frame import (
    Condition,
    Frame,
    Token,
    Tokens,
    find_pattern,
    first_of,
    has,
    values_of,
)
from ipyagent.explorer.lexer import MEASUREMENTS
from ipyagent.explorer.text import UNITS, code, codes, singular, split_name, words
from ipyagent.explorer.workspace import MisfitError, Table, refuse_if

_OPTIONS = frozenset({
    "METHOD", "LIBRARY", "PVALUE", "SIGNIFICANT", "SHAPIRO", "DAGOSTINO", "WELCH", "IQR", "ZSCORE",
    "IGNORE", "TEST", "STATISTIC", "STRONG", "SLOPE", "TTEST", "CHI2", "NORMAL",
})  # fmt: skip
_SILENT = frozenset({
    "OF", "IN", "ON", "FOR", "WITH", "WHERE", "IS", "HAS", "WHAT", "NOUN", "VALUES", "AS", "ITS",
    "HOWMUCH", "BY", "BETWEEN", "MEASURES",
})  # fmt: skip
_JOINED = frozenset({
    "COL", "STAT", "EXTREME", "ROWS", "COLUMNS", "THANKS", "PAIR", "TYPES",
    "INDEPENDENT", "DEPENDENT", "WHEN", "PERIOD",
})  # fmt: skip
_OF_ROWS = frozenset({
    "COUNT", "MISSING", "DUPLICATES", "MOST", "TOP", "SHOW", "PLOT", "CHART", "NUMBER", "DROP",
})  # fmt: skip
_NONE = Token("", "", "")
_SIGN = r"(OP|OVER|AFTER)"
_LEADING = ("IN", "ON", "FOR", "WITH", "OF", "WHERE")


class FrameParser:
    """Takes one sentence apart; raises MisfitError where its words do not fit the table."""

    def __init__(self, tokens: Sequence[Token], table: Table) -> None:
        self.table = table
        self.rest = list(tokens)
        self.at = 0  # where the clause was that is handled
        self.frame = Frame()
        self.original: Tokens = []
        self.places: list[tuple[int, bool]] = []  # of the conditions, and if a preposition leads

    def parse(self) -> Frame:
        """Return the frame of the sentence."""
        self._open_brackets()
        self._set_apart()
        self.original = list(self.rest)
        for pattern, handle in (*_COMPARED * has(self.rest, *_PAIRED), *_CLAUSES):
            while found := find_pattern(pattern, self.rest):
                self.at, end = found
                part = self.rest[self.at : end]
                self.rest[self.at : end] = []
                if made := handle(self, part):
                    self.rest[self.at : self.at] = made
                    break
        self._close()
        return self.frame

    def _open_brackets(self) -> None:
        """Take what stands in brackets for the words before them: `mileage (hwy)`."""
        signs = [t.value if t.tag == "SIGN" else "" for t in self.rest]
        while ")" in signs:
            end = signs.index(")")
            start = max((i for i in range(end) if signs[i] == "("), default=end)
            before, inner = self.rest[:start], self.rest[start + 1 : end]
            if all(words(t.text) and set(words(t.text)) <= UNITS | {"in"} for t in inner):
                inner = []
            elif {t.tag for t in inner} == {"COL"}:
                before = self._absorb(before, inner, is_column=True)
            elif has(inner, "VALUE", "NUMBER", "QUOTED") and has(inner, "COL"):
                before = self._absorb(before, inner, is_column=False)
                inner = [Token("WHERE", "", ""), *inner]
            self.rest = [*before, *inner, *self.rest[end + 1 :]]
            signs = [t.value if t.tag == "SIGN" else "" for t in self.rest]
        self.rest = [t for t in self.rest if not (t.tag == "SIGN" and t.value == "(")]

    def _absorb(self, before: Tokens, inner: Tokens, *, is_column: bool) -> Tokens:
        """Drop the words that a bracket explains: other names of its column, or of its value."""
        kept, numbers = list(before), values_of(inner, "NUMBER")
        absorbed = ("UNKNOWN", "AMBIGUOUS", *(("COL",) if is_column else ("VALUE", "ENTITY")))
        while kept and (
            kept[-1].tag in absorbed or (kept[-1].tag == "NUMBER" and kept[-1].value in numbers)
        ):
            is_name = kept[-1].tag == "UNKNOWN" and kept[-1].text[:1].isupper()
            if is_column and is_name and len(kept) > 1:
                break
            kept.pop()
        return kept

    def _set_apart(self) -> None:
        """Set aside what may stand anywhere: options, names of tables, entities, pronouns."""
        frame, kept = self.frame, list[Token]()
        frame.asks = has(self.rest[:1], "IS")
        for token in self.rest[1:] if frame.asks else self.rest:
            last = kept[-1] if kept else _NONE
            match token.tag:
                case tag if tag in _OPTIONS:
                    frame.options[tag] = token.value
                case "TABLE" | "FILE":
                    frame.named.append(token)
                case "ENTITY":
                    frame.entity = frame.entity if frame.entity and frame.entity.value else token
                case "IT" | "ITS":
                    frame.pronoun = True
                case _ if last.tag in ("COL", "VALUE") and _adds_nothing(token):
                    pass
                case "PERIOD" if token.text.endswith("s") and last.tag != "BY":
                    frame.entity = frame.entity or token
                case "COL" if last.tag == "COLUMNS" or _repeats(last, token):
                    kept[-1] = token
                case "COL" | "VALUE" if _same_column(last, token):
                    kept[-1] = last if last.tag == "VALUE" else token
                case _:
                    kept.append(token)
        self.rest = kept

    def _close(self) -> None:
        """Turn what is left into the core, without silent words."""
        frame = self.frame
        if has(self.rest, "REGRESSION"):
            self.rest = [replace(t, tag="VS") if t.tag == "ON" else t for t in self.rest]
        tokens = [t for t in self.rest if t.tag not in _SILENT]
        tags = {t.tag for t in tokens}
        if "SHARE" in tags and len(frame.where) > 1:
            self._find_target()
        computes = tags & {"STAT", "EXTREME", "QUANTILE", "CORR", "REGRESSION"} or frame.options
        gone = {"KEEP", "ROWS", "DISTRIBUTION"} if computes and not tags & _OF_ROWS else set[str]()
        if self.table.columns is not None and tags - {"FILES", "SHOW", "COUNT", "LOAD"}:
            gone |= {"FILES"}
        core: Tokens = []
        for token in (t for t in tokens if t.tag not in gone):
            last = core[-1] if core else _NONE
            if token.tag == "COL" and last.tag == "COLUMNS" and not tags & {"CORR", "DROP"}:
                core[-1] = token
            elif token.tag in ("AND", "COMMA"):
                core += [replace(token, tag="AND")] * (last.tag in _JOINED)
            elif (token.tag != "TO" or core) and not _repeats(last, token):
                core.append(token)
        while has(core[-1:], "AND"):
            core.pop()
        frame.core = core

    def _find_target(self) -> None:
        """Tell the condition that a share counts from those that its rows meet."""
        frame, places = self.frame, [place for place, _ in self.places]
        order = sorted(range(len(places)), key=places.__getitem__)
        *_, before, last = order
        turns = ("IS", "HAS", "SHARE", "WHAT")
        turned = any(t.tag in turns for t in self.original[places[before] : places[last]])
        led = [self.places[each][1] for each in order]
        if turned or (all(led[:-1]) and not led[-1]):
            frame.target = frame.where.pop(last)
            return
        raise MisfitError("A share of what? I take one condition, or “… of … that are …”.")

    # Clauses.

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
        column = self.measure(token)
        return [Token("BESTEND", token.value[0], token.text), Token("COL", column, token.text)]

    def _end_of(self, token: Token, column: str) -> str:
        """Return the end of a column that an adjective before it means."""
        end: str
        end, measures = token.value
        own = {*split_name(column), *words(column)}
        if own & set(measures) or measures[0] in ("length", "age", "price", "date", "year"):
            return end
        times = {"time", "duration", "min", "minutes", "sec", "seconds", "hours"}
        is_time = own & times or column.casefold().endswith(("min", "sec", "time"))
        if measures[0] == "speed" and is_time:
            return "min" if end == "max" else "max"
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


def _is_year(token: Token) -> bool:
    return isinstance(token.value, int) and 1000 <= token.value < 3000


def _adds_nothing(token: Token) -> bool:
    """Return whether a word after a column's name is a noun like `rate`, `type`, `column`."""
    said = words(token.text)[-1:] if token.tag == "UNKNOWN" else ()
    is_noun = any(singular(word) in MEASUREMENTS for word in said)
    is_size = token.tag == "SIZE" and token.text.lower() == "size"
    return is_noun or is_size or token.tag in ("COLUMNS", "TYPES")


def _repeats(left: Token, right: Token) -> bool:
    return left.tag == right.tag == "COL" and bool(left.value == right.value)


def _same_column(left: Token, right: Token) -> bool:
    pair = {left.tag: left, right.tag: right}
    return set(pair) == {"COL", "VALUE"} and bool(pair["VALUE"].value[0] == pair["COL"].value)


_LEAD = "(AND? (WHERE|WITH|HAS|IN|ON|OF|FOR|KEEP)* )"
_N = "(NUMBER|DATE)"
_PAIRED = {"COMPARE", "DIFFERENCE", "TTEST", "VS", "HIGHER", "MORE", "BEST", "WELCH"}

_Handler = Callable[[FrameParser, Tokens], Tokens | None]
_P = FrameParser
_BETWEEN = "(AND|OR|VS|THAN|TO|COMMA|HIGHER|MORE|BEST|WITH|IN|FOR|COL|STAT|OF|IS)*"
_COMPARED: tuple[tuple[str, _Handler], ...] = (
    (f"(BETWEEN|OF|FOR|IN)? VALUE {_BETWEEN} VALUE", _P.pair),
)
_CLAUSES: tuple[tuple[str, _Handler], ...] = (
    ("WITH? KNOWN COL", _P.gap),
    ("AND? (WITH|AT)? A? (ALPHA|THRESHOLD) (OF|IS|EQ|AT)* NUMBER", _P.number_option),
    ("NUMBER TIMESIQR", _P.number_option),
    ("AND? (ROUND|TO|WITH)* TO? NUMBER DECIMALS", _P.rounding),
    ("(AND? ROUND)? TO? WHOLE | AND? ROUND", _P.rounding),
    ("TREND", _P.trend),
    ("AND? COLOUR BY? COL", _P.tint),
    ("AND? SORT ROWS? (BY|ON)? COL (IN? (ORDER|EXTREME) SORT?)?", _P.sorting),
    ("ORDER (SORT|BY) COL", _P.sorting),
    (f"{_LEAD} COL (IS|HAS|OF|IN)* (BETWEEN)? {_N} (AND|TO) {_N}", _P.condition),
    (f"{_LEAD} IS? (AGED)? BETWEEN {_N} (AND|TO) {_N} (YEARSOLD|COL)?", _P.condition),
    (f"{_LEAD} COL (IS|HAS|OF|EQ)* NOT? {_SIGN} {_N}", _P.condition),
    (f"{_LEAD} IS? BEST THAN {_N} (YEARSOLD)?", _P.condition),
    (f"{_LEAD} MEASURES {_SIGN} {_N}", _P.condition),
    (f"{_LEAD} IS? {_SIGN} {_N} OF? COL", _P.condition),
    (f"{_LEAD} COL (IS|EQ)+ NOT? (VALUE|QUOTED|BOOL|DATE|NUMBER)", _P.condition),
    (f"{_LEAD} COL NOT? (VALUE|QUOTED|BOOL)", _P.condition),
    ("AND? (WITH|HAS|FOR|IN|OF) NUMBER COL | (IN|FOR|WITH|OF) COL NUMBER", _P.condition),
    ("WITHOUT (KNOWN|MISSING)? COL | (WITH|HAS) KNOWN COL", _P.gap),
    (f"{_LEAD} IS? {_SIGN} {_N} (YEARSOLD)?", _P.condition),
    (f"{_LEAD} (SINCE)? MONTH NUMBER?", _P.month),
    (f"IN? {_N} TO {_N}", _P.condition),
    ("(IN|FOR|OF|WHERE|KEEP) NUMBER", _P.condition),
    ("PERIODLY", _P.groups),
    ("AND? BY (PERIOD|COL) ((AND|BY|COMMA) (PERIOD|COL))* ", _P.groups),
    (f"{_LEAD} TO? IS? (NOT|WITHOUT)* VALUE ((COMMA|AND|OR)* VALUE)* ", _P.values),
    ("BEST", _P.superlative),
)
