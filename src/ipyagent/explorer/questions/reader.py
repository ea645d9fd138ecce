"""From a question in ordinary words to the next step."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from ipyagent.explorer import lookups
from ipyagent.explorer.chunks import Token
from ipyagent.explorer.markdown import codes
from ipyagent.explorer.names import fresh, words
from ipyagent.explorer.questions import form
from ipyagent.explorer.questions.columns import nearest, split_name
from ipyagent.explorer.questions.dates import assign_parts, with_date_parts
from ipyagent.explorer.questions.frame import Frame
from ipyagent.explorer.questions.intents import measures_of
from ipyagent.explorer.questions.lexer import names_of, tokens
from ipyagent.explorer.questions.measure import Measure, Query, print_results, read_results
from ipyagent.explorer.questions.prompt import Prompt, read_prompt
from ipyagent.explorer.snippets import script
from ipyagent.explorer.steps import Look, MisfitError, Step, Task
from ipyagent.explorer.vocabulary import TURNING
from ipyagent.explorer.workspace import Table, Workspace

_MAX_MEASURES = 6
_IN_FILE = re.compile(r"(?:\s(?:in|of|from))?\s+this file(?=\W|$)")
_YES_OR_NO = re.compile(r"(?:is|are|was|were|do|does|did|has|have)\b(?! there)", re.IGNORECASE)


@dataclass
class QuestionReader:
    """One prompt in progress: why it is not understood, and what it may have meant."""

    text: str
    workspace: Workspace
    reasons: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    offers: list[str] = field(default_factory=list)
    looked: bool = False  # into a table, for its columns

    def step(self) -> Step | None:
        """Return a look or a task; None if the question is not fully understood."""
        prompt = read_prompt(self.text, self.workspace.files)
        if not prompt.sentences or self._is_hopeless(prompt):
            return None
        if len(prompt.files) > 1:
            return None
        if prompt.files:
            return self._of_file(prompt, prompt.files[0])
        if self.workspace.tables:
            return self._of_tables(prompt)
        if len(paths := self.workspace.table_files) == 1:
            return self._of_file(prompt, paths[0])
        return None

    @property
    def is_prose(self) -> bool:
        """True if this is more than a command, or something near it is understood."""
        prompt = read_prompt(self.text, self.workspace.files)
        named = bool(prompt.files) and self.looked
        why = bool(self.unknown or self.reasons)
        return (
            bool(self.offers)
            or named
            or (why and bool(prompt.files or prompt.slots or len(prompt.sentences) > 1))
        )

    def _of_file(self, prompt: Prompt, path: str) -> Step | None:
        """Look into a file before any word of the question is called unknown."""
        if path not in self.workspace.table_files:
            return None
        if name := self.workspace.loaded.get(path):
            return self._of_table(prompt, self.workspace.tables[name], PurePosixPath(path).stem)
        return lookups.at_file(path, self.workspace, values=True)

    def _is_hopeless(self, prompt: Prompt) -> bool:
        """Return whether words turn the question around, or none of it is known."""
        nowhere = names_of(Table(""), "")
        found = [t for each in prompt.sentences for t in tokens(each, nowhere)]
        turned = [w for t in found if t.tag == "UNKNOWN" for w in words(t.text) if w in TURNING]
        if not any(t.tag == "IF" for t in found):
            turned += [t.text for t in found if t.tag == "NOT"]
        self.unknown = turned
        asks = {"STAT", "EXTREME", "COUNT", "SHARE", "MODE", "OFTEN", "MISSING", "NORMAL", "CORR",
                "OUTLIERS", "REGRESSION", "TTEST", "WELCH", "CHI2", "QUANTILE", "UNIQUE", "SIZE",
                "SHAPIRO", "DAGOSTINO"}  # fmt: skip
        return bool(turned) or not any(t.tag in asks for t in found)

    def _of_tables(self, prompt: Prompt) -> Step | None:
        said = {word for each in prompt.sentences for word in words(each)}
        tables = self.workspace.tables
        named = [t for name, t in tables.items() if said & set(words(name))]
        candidates = named if len(named) == 1 else list(tables.values())
        steps = [s for table in candidates if (s := self._of_table(prompt, table, table.name))]
        if looks := [each for each in steps if isinstance(each, Look)]:
            return looks[0]
        if len(steps) > 1:
            self.reasons = [f"That could be about {codes(each.name for each in candidates)}."]
        return steps[0] if len(steps) == 1 else None

    def _of_table(self, prompt: Prompt, table: Table, stem: str) -> Step | None:
        if table.columns is None:
            return None if table.opaque else lookups.at_columns(table, self.workspace)
        self.looked = True
        steps: list[Task] = []
        strange: list[Token] = []
        for names_first in (True, False):
            reading = self._read(prompt, table, stem, names_first=names_first)
            steps += [s for s in reading[:1] if isinstance(s, Task)]
            strange = strange or [each for each in reading if isinstance(each, Token)]
        if len({str(each.arguments) for each in steps}) > 1:
            self.reasons = ["Some of these words are names as well; put names in backticks."]
            return None
        if steps:
            return steps[0]
        if strange and table.values is None and table.of_kind("text"):
            return lookups.at_values(table, self.workspace)
        self.unknown = list(dict.fromkeys(each.text for each in strange)) or self.unknown
        self.offers += self._near_misses(prompt, table, strange)
        return None

    def _read(
        self, prompt: Prompt, table: Table, stem: str, *, names_first: bool
    ) -> list[Task] | list[Token]:
        """Return the task of the prompt, or the tokens that nothing accounts for."""
        frame, names = Frame(), names_of(with_date_parts(table), stem)
        try:
            for each in prompt.sentences:
                found = tokens(each, names, names_first=names_first)
                if strange := [t for t in found if t.tag in ("UNKNOWN", "QUOTED")]:
                    return strange
                frame.add(found, names.table)
                frame.asks |= bool(_YES_OR_NO.match(each))
            form.check_description(prompt, [*prompt.sentences, *(names.table.columns or {})])
            used = [c for c in frame.columns if c not in (table.columns or {})]
            name = fresh(f"{table.name}_by_date", self.workspace.variables)
            asked = replace(names.table, name=name) if used else table
            measures = self._measures(prompt, frame, asked)
            if not measures:
                return []
            dated = [assign_parts(table, used, name)] if used else []
            return [self._task(prompt, frame, measures, table, dated)]
        except MisfitError as misfit:
            self.reasons.append(str(misfit))
            return []

    def _measures(self, prompt: Prompt, frame: Frame, table: Table) -> list[Measure]:
        wanted = frozenset(w for slot in prompt.slots for w in words(f"{slot.name} {slot.held}"))
        cores, raws = frame.main or [()], frame.raw or [()]
        found: list[Measure] = []
        for core, raw in zip(cores, raws, strict=True):
            measures = measures_of(Query(frame, core, raw, table, self.workspace, wanted))
            if measures is None:
                return []
            found += measures
        if len(found) > _MAX_MEASURES:
            raise MisfitError(f"I compute up to {_MAX_MEASURES} values at once.")
        return found

    def _task(
        self,
        prompt: Prompt,
        frame: Frame,
        measures: Sequence[Measure],
        table: Table,
        dated: list[str],
    ) -> Task:
        filled = form.assign(prompt, measures)
        results = list({r.name: r for each in measures for r in each.results}.values())
        lines = [*dated, *(line for each in measures for line in each.lines)]
        printed = print_results(results)
        drop = [name for each in measures for name in each.drop]
        drop += ["results"] if len(printed) > 1 else []
        drop += [line.split()[0] for line in dated]
        if len(set(drop)) < len(drop):
            raise MisfitError("Please ask one question after the other.")
        lines += [*printed, *([f"del {', '.join(drop)}"] if drop else [])]

        def answer(output: str) -> str:
            values = read_results(output, measures)
            said = "\n\n".join(each.report(values) for each in measures)
            if not prompt.slots:
                return said
            written = form.write(prompt, filled, values, frame.digits)
            missing = "The form can't be filled: a value is missing, or several are tied."
            return f"{said}\n\n{written or missing}"

        rule = f"{', '.join(each.rule for each in measures)} ({table.name})"
        return Task(rule, "run_python", {"code": script(*lines)}, answer)

    def _near_misses(self, prompt: Prompt, table: Table, strange: list[Token]) -> list[str]:
        """Return questions near this one that are understood."""
        found = []
        for each in _replacements(prompt, table, strange):
            offered = QuestionReader(each, self.workspace)
            read = read_prompt(each, ())
            for names_first in (True, False):
                reading = offered._read(read, table, table.name, names_first=names_first)
                if reading and isinstance(reading[0], Task):
                    found.append(each)
                    break
        return list(dict.fromkeys(found))[:3]


def _replacements(prompt: Prompt, table: Table, strange: list[Token]) -> Iterator[str]:
    """Yield the sentence without unknown words, or with columns that they may mean."""
    for token in strange[:1]:
        for each in [each for each in prompt.sentences if token.text in each][:1]:
            sentence = " ".join(_IN_FILE.sub("", each).split())
            for column in nearest(words(token.text), table.columns or {}):
                yield sentence.replace(token.text, f"`{column}`", 1)
            idle = not TURNING & set(words(token.text)) and bool(words(token.text))
            if idle and any(_beside(token.text, sentence, c) for c in table.columns or {}):
                yield " ".join(sentence.replace(token.text, "", 1).split())


def _beside(unknown: str, sentence: str, column: str) -> bool:
    """Return whether unknown words stand beside a column's name, as in `engine displacement`."""
    way = " ".join(split_name(column))
    plain = " ".join(words(sentence))
    word = " ".join(words(unknown))
    return f"{word} {way}" in plain or f"{way} {word}" in plain
