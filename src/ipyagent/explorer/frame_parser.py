"""Parse a sentence into its frame: brackets, options, clauses, and the core that is left."""

from __future__ import annotations

from dataclasses import replace

from ipyagent.explorer.clauses import CLAUSES, COMPARED, PAIRED, Clauses
from ipyagent.explorer.frame import Frame, Token, Tokens, find_pattern, has, values_of
from ipyagent.explorer.names import UNITS, singular, words
from ipyagent.explorer.vocabulary import MEASUREMENTS
from ipyagent.explorer.workspace import MisfitError

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


class FrameParser(Clauses):
    """Takes one sentence apart; raises MisfitError where its words do not fit the table."""

    def parse(self) -> Frame:
        """Return the frame of the sentence."""
        self._open_brackets()
        self._set_apart()
        self.original = list(self.rest)
        clauses = (*COMPARED, *CLAUSES) if has(self.rest, *PAIRED) else CLAUSES
        for pattern, handle in clauses:
            while found := find_pattern(pattern, self.rest):
                self.at, end = found
                part = self.rest[self.at : end]
                self.rest[self.at : end] = []
                made = handle(self, part)
                if made is not None:
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
        unclear = ("UNKNOWN", "AMBIGUOUS")
        absorbed = (*unclear, *(("COL",) if is_column else ("VALUE", "ENTITY")))
        while kept and (
            kept[-1].tag in absorbed or (kept[-1].tag == "NUMBER" and kept[-1].value in numbers)
        ):
            is_name = kept[-1].tag == "UNKNOWN" and kept[-1].text[:1].isupper()
            if is_column and is_name and len(kept) > 1:
                break
            kept.pop()
        start = inner[0].value.casefold()[:3] if is_column else "("
        return [t for t in kept if t.tag not in unclear or not t.text.casefold().startswith(start)]

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
                case "SIGN" if token.value in ":;!":
                    pass
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
