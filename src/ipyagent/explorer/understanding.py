"""From a prompt and the known workspace to the next step.

A step may be a look: the columns of a table, a file that must be loaded first, the values of a text
column. With its result, the prompt is parsed again from the start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ipyagent.explorer import lookups
from ipyagent.explorer.ask import Ask
from ipyagent.explorer.chunks import Token
from ipyagent.explorer.families import comparisons, talk
from ipyagent.explorer.grammar import Sentence, matches, sentence
from ipyagent.explorer.lexer import ORDERS, names_of, tokens
from ipyagent.explorer.markdown import code, codes
from ipyagent.explorer.questions.prompt import asks_for_form
from ipyagent.explorer.questions.reader import QuestionReader
from ipyagent.explorer.rules import (
    A_VALUE,
    ALONE,
    ANYTHING,
    ON_A_TABLE,
    Guesses,
    first,
    may_fit,
)
from ipyagent.explorer.steps import MisfitError, Say, Step
from ipyagent.explorer.workspace import Table, Workspace, is_table_file

_NOWHERE = Table("")
_NAMES_FIRST, _TABLES_FIRST, _ = ORDERS
_MAX_UNSEEN = 3  # tables of unknown columns that are looked at when none is named
_MAX_LENGTH = 500  # characters of a command: anything longer is read sentence by sentence


def next_step(prompt: str, workspace: Workspace) -> Step:
    """Return the next step for this prompt."""
    command = None
    if len(prompt) <= _MAX_LENGTH and not asks_for_form(prompt):
        command = _PromptReader(prompt, workspace).step()
        if not (isinstance(command, Say) and command.declined):
            return command
    question = QuestionReader(prompt, workspace)
    if step := question.step():
        return step
    if command is not None and not question.is_prose:
        return command
    reasons = [] if question.unknown else question.reasons
    return talk.decline(workspace, question.unknown, reasons, question.offers)


@dataclass
class _PromptReader:
    """One prompt in progress; `reasons` collects why matching rules do not apply."""

    prompt: str
    workspace: Workspace
    reasons: list[str] = field(default_factory=list)

    def step(self) -> Step:
        found = self.tokens()
        if not found:
            return talk.helping(self.workspace)
        if missing := [each.value for each in found if each.tag == "NOFILE"]:
            self.reasons.append(f"I see no file {codes(missing)} in the workspace.")
            return talk.decline(self.workspace, [], self.reasons)
        step = self.alone() or self.two_tables() or self.on_a_table()
        return step or talk.decline(self.workspace, self.unknown(), self.reasons)

    def tokens(
        self, table: Table | None = None, order: tuple[str, ...] = _NAMES_FIRST
    ) -> list[Token]:
        """Return the prompt's tokens; a file that was loaded for it stands for its table."""
        loaded = self.workspace.loaded
        return [
            Token("TABLE", loaded[each.value], each.text)
            if each.tag == "FILE" and each.value in loaded
            else each
            for each in tokens(self.prompt, names_of(self.workspace, table), order)
        ]

    def alone(self) -> Step | None:
        """Return the step for a request that is not about the inside of a table."""
        for order in ORDERS:
            found = Sentence(tuple(self.tokens(order=order)))
            if step := first(ALONE, found, self.workspace, _NOWHERE, self.reasons):
                return step
        return None

    def two_tables(self) -> Step | None:
        """Return the step for a comparison of two tables; files are loaded first."""
        found = self.tokens(order=_TABLES_FIRST)
        tags = {"FILE": "TABLE", "UNKNOWN": "COL"}
        as_tables = [replace(each, tag=tags.get(each.tag, each.tag)) for each in found]
        keyed = matches(comparisons.KEYED, as_tables)
        if not keyed and not matches(comparisons.TABLES, as_tables):
            return None
        targets = [each for each in found if each.tag in ("TABLE", "FILE")]
        for target in targets:
            if target.tag == "FILE":
                return self.load(target.value)
            if self.workspace.tables[target.value].columns is None:
                return lookups.at_columns(self.workspace.tables[target.value], self.workspace)
        one, other = (self.workspace.tables[target.value] for target in targets)
        return self.compare(one, other, keyed)

    def compare(self, one: Table, other: Table, keyed: bool) -> Step | None:
        found = tuple(self.tokens(one, _TABLES_FIRST))
        key = next((each.value for each in found if each.tag == "COL"), None)
        if keyed and key is None:
            return None
        if one.name == other.name:
            self.reasons.append(f"{code(one.name)} is one table; name another beside it.")
            return None
        try:
            ask = Ask(Sentence(found), self.workspace, one)
            return comparisons.two_tables(ask, other, key if keyed else None)
        except MisfitError as misfit:
            self.reasons.append(str(misfit))
            return None

    def on_a_table(self) -> Step | None:
        """Return the step for a request about the named table, or the only possible one."""
        named = self.targets()
        if len(named) > 1:
            return None
        if named and named[0].tag == "FILE":
            return self.load(named[0].value)
        if named:
            return self.on_this_table(self.workspace.tables[named[0].value])
        if self.workspace.tables:
            return self.on_any_table()
        if len(paths := self.workspace.table_files) == 1:
            return self.load(paths[0])
        if paths and self.may_fit(None, ANYTHING):
            self.reasons.append(f"That could be about {codes(paths)}: please name the file.")
        return None

    def targets(self) -> list[Token]:
        """Return the tables and files that the prompt names, each once."""
        found = self.tokens(order=_TABLES_FIRST)
        named = {(e.tag, e.value): e for e in found if e.tag in ("TABLE", "FILE")}
        return list(named.values())

    def load(self, path: str) -> Step | None:
        """Load a file, if the prompt may be understood once its columns are known."""
        fits = is_table_file(path) and (len(self.targets()) > 1 or self.may_fit(None, ANYTHING))
        return lookups.at_file(path, self.workspace) if fits else None

    def may_fit(self, table: Table | None, guesses: Guesses) -> bool:
        return any(may_fit(self.tokens(table, order), guesses) for order in ORDERS)

    def on_any_table(self) -> Step | None:
        tables = self.workspace.tables
        unseen = [table for table in tables.values() if table.columns is None]
        if 0 < len(unseen) <= _MAX_UNSEEN and (look := self.columns_of(unseen[0])):
            return look
        steps = {name: step for name in tables if (step := self.on_this_table(tables[name]))}
        if len(steps) > 1:
            self.reasons[:] = [f"That could be about {codes(steps)}: please name the table."]
            return None
        if not steps and len(tables) > 1:
            self.reasons.clear()  # they are about tables that the prompt may not mean
        return next(iter(steps.values()), None)

    def on_this_table(self, table: Table) -> Step | None:
        if table.columns is None:
            return self.columns_of(table)
        steps: list[Step] = []
        for found in self.readings(table):
            step = first(ON_A_TABLE, found, self.workspace, table, self.reasons)
            if step is not None and not any(_same(step, each) for each in steps):
                steps.append(step)
        if len(steps) > 1:
            self.reasons[:] = ["Some of these words are names as well; put names in backticks."]
            return None
        if steps:
            return steps[0]
        unseen = table.values is None and bool(table.of_kind("text"))
        fits = unseen and self.may_fit(table, A_VALUE)
        return lookups.at_values(table, self.workspace) if fits else None

    def columns_of(self, table: Table) -> Step | None:
        """Look at the columns, if that costs no question or may help."""
        turned = any(each.tag == "TURNING" for each in self.tokens(table))
        helps = self.may_fit(table, ANYTHING) if table.opaque else not turned
        return lookups.at_columns(table, self.workspace) if helps else None

    def readings(self, table: Table) -> Iterator[Sentence]:
        """Yield the sentence in every reading of words as names or as themselves."""
        seen: list[list[Token]] = []
        for order in ORDERS:
            found = self.tokens(table, order)
            if found not in seen:
                seen.append(found)
                yield sentence(found)

    def unknown(self) -> list[str]:
        """Return the words that nothing accounts for, in their original spelling."""
        tables = (*self.workspace.tables.values(), None)
        fewest = min((_strange(self.tokens(table)) for table in tables), key=len)
        return list(dict.fromkeys(fewest))


def _same(one: Step, other: Step) -> bool:
    if isinstance(one, Say) or isinstance(other, Say):
        return one == other
    return (one.tool, one.arguments) == (other.tool, other.arguments)


def _strange(found: Sequence[Token]) -> list[str]:
    return [each.text for each in found if each.tag in ("UNKNOWN", "TURNING")]
