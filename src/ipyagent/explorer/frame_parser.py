"""Parse a sentence into its frame: brackets, options, clauses, and the core that is left."""

from __future__ import annotations

from dataclasses import replace

from ipyagent.explorer.chunks import Token
from ipyagent.explorer.clauses import CLAUSES, COMPARED, PAIRED, Clauses
from ipyagent.explorer.frame import Frame, Tokens, find_pattern
from ipyagent.explorer.names import UNITS, singular, words
from ipyagent.explorer.steps import MisfitError
from ipyagent.explorer.vocabulary import MEASUREMENTS

_OPTIONS = (
    *(
        "METHOD",
        "LIBRARY",
        "PVALUE",
        "SIGNIFICANT",
        "SHAPIRO",
        "DAGOSTINO",
        "WELCH",
        "IQR",
        "ZSCORE",
    ),
    *("IGNORE", "TEST", "STATISTIC", "STRONG", "SLOPE", "TTEST", "CHI2", "NORMAL"),
)
_SILENT = frozenset(
    {
        "OF",
        "IN",
        "ON",
        "FOR",
        "WITH",
        "WHERE",
        "IS",
        "HAS",
        "WHAT",
        "NOUN",
        "VALUES",
        "AS",
        "ITS",
        "HOWMUCH",
        "BY",
        "BETWEEN",
        "MEASURES",
    }
)
_JOINED = frozenset({
    "COL", "STAT", "EXTREME", "ROWS", "COLUMNS", "THANKS", "PAIR", "TYPES",
    "INDEPENDENT", "DEPENDENT", "WHEN", "PERIOD",
})  # fmt: skip
_OF_ROWS = {
    "COUNT",
    "MISSING",
    "DUPLICATES",
    "MOST",
    "TOP",
    "SHOW",
    "PLOT",
    "CHART",
    "NUMBER",
    "DROP",
}


class FrameParser(Clauses):
    """Takes one sentence apart; raises MisfitError where its words do not fit the table."""

    def parse(self) -> Frame:
        """Return the frame of the sentence."""
        self._open_brackets()
        self._set_apart()
        self.original = list(self.rest)
        paired = {t.tag for t in self.rest} & PAIRED
        for pattern, handle in (*COMPARED, *CLAUSES) if paired else CLAUSES:
            while found := find_pattern(pattern, self.rest):
                start, end = found
                part = self.rest[start:end]
                self.rest[start:end] = []
                made = handle(self, part, start)
                if made is not None:
                    self.rest[start:start] = made
                    break
        self._close()
        return self.frame

    def _open_brackets(self) -> None:
        """Take what stands in brackets for the words before them: `mileage (hwy)`."""
        while span := self._brackets():
            start, end = span
            inner = self.rest[start + 1 : end - 1]
            before = self.rest[:start]
            tags = {each.tag for each in inner}
            if inner and all(words(t.text) and set(words(t.text)) <= UNITS | {"in"} for t in inner):
                inner = []
            elif tags == {"COL"} or (tags & {"VALUE", "NUMBER", "QUOTED"} and "COL" in tags):
                before = self._absorb(before, inner, tags == {"COL"})
                if tags != {"COL"}:
                    inner = [Token("WHERE", "", ""), *inner]
            self.rest = [*before, *inner, *self.rest[end:]]
        self.rest = [t for t in self.rest if not (t.tag == "SIGN" and t.value in "()")]

    def _absorb(self, before: Tokens, inner: Tokens, is_column: bool) -> Tokens:
        """Drop the words that a bracket explains: other names of its column, or of its value."""
        kept = list(before)
        absorbed = ("UNKNOWN", "AMBIGUOUS") + (("COL",) if is_column else ("VALUE", "ENTITY"))
        numbers = [t.value for t in inner if t.tag == "NUMBER"]
        while kept and (
            kept[-1].tag in absorbed or (kept[-1].tag == "NUMBER" and kept[-1].value in numbers)
        ):
            if (
                is_column
                and kept[-1].tag == "UNKNOWN"
                and kept[-1].text[:1].isupper()
                and len(kept) > 1
            ):
                break
            kept.pop()
        if is_column:
            start = inner[0].value.casefold()[:3]
            kept = [
                t
                for t in kept
                if not (t.tag in ("UNKNOWN", "AMBIGUOUS") and t.text.casefold().startswith(start))
            ]
        return kept

    def _brackets(self) -> tuple[int, int] | None:
        opened = -1
        for i, token in enumerate(self.rest):
            if token.tag == "SIGN" and token.value == "(":
                opened = i
            elif token.tag == "SIGN" and token.value == ")" and opened >= 0:
                return opened, i + 1
        return None

    def _set_apart(self) -> None:
        """Set aside what may stand anywhere: options, names of tables, entities, pronouns."""
        frame, kept = self.frame, list[Token]()
        frame.asks = bool(self.rest) and self.rest[0].tag == "IS"
        for token in self.rest[1:] if frame.asks else self.rest:
            last = kept[-1] if kept else None
            if token.tag in _OPTIONS and not (token.tag == "IQR" and last and last.tag == "TIMES"):
                frame.options[token.tag] = token.value
            elif token.tag in ("TABLE", "FILE"):
                frame.named.append(token)
            elif token.tag == "ENTITY":
                frame.entity = frame.entity if frame.entity and frame.entity.value else token
            elif token.tag in ("IT", "ITS"):
                frame.pronoun = True
            elif (
                (token.tag == "SIGN" and token.value in ":;!")
                or (last and token.tag == "COL" == last.tag and token.value == last.value)
                or (last and last.tag in ("COL", "VALUE") and _adds_nothing(token))
            ):
                pass
            elif (
                token.tag == "PERIOD"
                and token.text.endswith("s")
                and (not last or last.tag != "BY")
            ):
                frame.entity = frame.entity or token
            elif last and last.tag == "COLUMNS" and token.tag == "COL":
                kept[-1] = token
            elif last and _same_column(last, token):
                kept[-1] = last if last.tag == "VALUE" else token
            else:
                kept.append(token)
        self.rest = kept

    def _close(self) -> None:
        """Turn what is left into the core, without silent words."""
        frame = self.frame
        if any(t.tag == "REGRESSION" for t in self.rest):
            self.rest = [replace(t, tag="VS") if t.tag == "ON" else t for t in self.rest]
        tokens = [t for t in self.rest if t.tag not in _SILENT]
        if any(t.tag == "SHARE" for t in tokens) and len(frame.where) > 1:
            self._find_target()
        core: Tokens = []
        tags = {t.tag for t in tokens}
        computes = tags & {"STAT", "EXTREME", "QUANTILE", "CORR", "REGRESSION"} or frame.options
        for token in tokens:
            if computes and token.tag in ("KEEP", "ROWS", "DISTRIBUTION") and not tags & _OF_ROWS:
                continue
            if (
                token.tag == "FILES"
                and self.table.columns is not None
                and tags - {"FILES", "SHOW", "COUNT", "LOAD"}
            ):
                continue
            if (
                token.tag == "COL"
                and core
                and core[-1].tag == "COLUMNS"
                and not tags & {"CORR", "DROP"}
            ):
                core.pop()
            if token.tag in ("AND", "COMMA"):
                if core and core[-1].tag in _JOINED:
                    core.append(replace(token, tag="AND"))
            elif (
                token.tag == "COL"
                and core
                and core[-1].value == token.value
                and core[-1].tag == "COL"
            ):
                continue
            elif token.tag != "TO" or core:
                core.append(token)
        while core and core[-1].tag == "AND":
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


def _adds_nothing(token: Token) -> bool:
    """Return whether a word after a column's name is a noun like `rate`, `type`, `column`."""
    noun = (
        token.tag == "UNKNOWN" and singular(words(token.text)[-1]) in MEASUREMENTS
        if words(token.text)
        else False
    )
    return (
        noun
        or token.tag in ("COLUMNS", "TYPES")
        or (token.tag == "SIZE" and token.text.lower() == "size")
    )


def _same_column(left: Token, right: Token) -> bool:
    pair = {left.tag: left, right.tag: right}
    return set(pair) == {"COL", "VALUE"} and bool(pair["VALUE"].value[0] == pair["COL"].value)
