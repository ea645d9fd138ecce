"""From a prompt and what is known of the workspace to the next step.

A step may be a look: the columns of a table, a file that must be loaded first, the values that a
text column has. With what it brings, the prompt is read again from the start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from ipyagent.llm.explorer.ask import Ask, Rule
from ipyagent.llm.explorer.families import (
    columns,
    comparisons,
    counts,
    dates,
    files,
    measures,
    plots,
    profiling,
    quality,
    ranking,
    relations,
    shape,
    talk,
)
from ipyagent.llm.explorer.grammar import Sentence, matches, sentence
from ipyagent.llm.explorer.lexer import ORDERS, Token, names_of, tokens
from ipyagent.llm.explorer.markdown import block, code, codes
from ipyagent.llm.explorer.snippets import literal, printed, script
from ipyagent.llm.explorer.steps import Look, MisfitError, Say, Step
from ipyagent.llm.explorer.workspace import Table, Workspace, inspected, is_table_file

_ALONE: tuple[Rule, ...] = (*talk.RULES, *files.RULES)
_ON_A_TABLE: tuple[Rule, ...] = (
    *shape.RULES,
    *profiling.RULES,
    *quality.RULES,
    *dates.RULES,
    *ranking.RULES,
    *measures.RULES,
    *counts.RULES,
    *relations.RULES,
    *columns.RULES,
    *comparisons.RULES,
    *plots.RULES,
)
_NOWHERE = Table("")
# What unknown words may be: before a table is loaded, and while only its values are unknown.
Guesses = tuple[tuple[str, ...], ...]
_ANYTHING: Guesses = (("COL",), ("VALUE",), ("VALUE", "COL"))
_VALUES: Guesses = (("VALUE",),)
_MAX_UNKNOWN = 4  # runs of unknown words that are worth a guess
_MAX_LENGTH = 500  # characters of a prompt: nothing longer is one request
_MAX_VALUES = 500  # of the text columns together


def next_step(prompt: str, workspace: Workspace) -> Step:
    """What to do next for this prompt."""
    if len(prompt) > _MAX_LENGTH:
        return talk.declined(workspace, [], [f"That is more than {_MAX_LENGTH} characters."])
    reasons: list[str] = []
    found = tokens(prompt, names_of(workspace, None))
    if not found:
        return talk.helping(workspace)
    if missing := [each.value for each in found if each.tag == "NOFILE"]:
        return talk.declined(workspace, [], [f"I see no file {codes(missing)} in the workspace."])
    for step in (
        _alone(prompt, workspace, reasons),
        _two_tables(prompt, workspace, reasons),
        _on_a_table(prompt, workspace, reasons),
    ):
        if step is not None:
            return step
    return talk.declined(workspace, _unknown(prompt, workspace), reasons)


def _alone(prompt: str, workspace: Workspace, reasons: list[str]) -> Step | None:
    """Requests that are not about the inside of a table."""
    for order in ORDERS:
        found = tokens(prompt, names_of(workspace, None), order)
        if step := _first(_ALONE, Sentence(tuple(found)), workspace, _NOWHERE, reasons):
            return step
    return None


def _on_a_table(prompt: str, workspace: Workspace, reasons: list[str]) -> Step | None:
    """The step on the table that the prompt names, or on the only one that it can mean."""
    named = _targets(prompt, workspace)
    if len(named) > 1:
        return None
    if named and named[0].tag == "FILE":
        return _load_first(prompt, named[0].value, workspace)
    if named:
        return _on_this_table(prompt, workspace, workspace.tables[named[0].value], reasons)
    if not workspace.tables:
        if len(workspace.table_files) == 1:
            return _load_first(prompt, workspace.table_files[0], workspace)
        return _which(prompt, workspace, workspace.table_files, reasons)
    steps: dict[str, Step] = {}
    for name, table in workspace.tables.items():
        why: list[str] = []
        if step := _on_this_table(prompt, workspace, table, why):
            steps[name] = step
        reasons += why if len(workspace.tables) == 1 else []
    if len(steps) > 1:
        reasons[:] = [f"That could be about {codes(steps)}: please name the table."]
        return None
    return next(iter(steps.values()), None)


def _targets(prompt: str, workspace: Workspace) -> list[Token]:
    """The tables and table files that the prompt names, each once."""
    found = tokens(prompt, names_of(workspace, None), ORDERS[1])
    loaded = workspace.loaded
    named: dict[tuple[str, str], Token] = {}
    for each in found:
        if each.tag == "FILE" and each.value in loaded:
            each = Token("TABLE", loaded[each.value], each.text)
        if each.tag in ("TABLE", "FILE"):
            named[each.tag, each.value] = each
    return list(named.values())


def _load_first(prompt: str, path: str, workspace: Workspace) -> Step | None:
    """Load a file, if the prompt may be understood once its columns are known."""
    if not is_table_file(path) or not _may_fit(prompt, workspace, None, _ANYTHING):
        return None
    return files.loading(path, workspace)


def _which(
    prompt: str, workspace: Workspace, paths: Sequence[str], reasons: list[str]
) -> Step | None:
    if paths and _may_fit(prompt, workspace, None, _ANYTHING):
        reasons.append(f"That could be about {codes(paths)}: please name the file.")
    return None


def _on_this_table(
    prompt: str, workspace: Workspace, table: Table, reasons: list[str]
) -> Step | None:
    if table.columns is None:
        fits = _may_fit(prompt, workspace, table, _ANYTHING)
        return _inspect(workspace, table) if fits else None
    steps: list[Step] = []
    for found in _readings(prompt, workspace, table):
        step = _first(_ON_A_TABLE, found, workspace, table, reasons)
        if step is not None and not any(_same(step, each) for each in steps):
            steps.append(step)
    if len(steps) > 1:
        reasons[:] = ["Some of these words are names here as well; put names in backticks."]
        return None
    if steps:
        return steps[0]
    unseen = table.values is None and bool(table.of_kind("text"))
    fits = unseen and _may_fit(prompt, workspace, table, _VALUES)
    return _values(workspace, table) if fits else None


def _readings(prompt: str, workspace: Workspace, table: Table) -> Iterator[Sentence]:
    """The sentence, as often as words can be read as names or as themselves."""
    seen = []
    for order in ORDERS:
        found = [
            _loaded(each, workspace) for each in tokens(prompt, names_of(workspace, table), order)
        ]
        if found not in seen:
            seen.append(found)
            yield sentence(found)


def _loaded(token: Token, workspace: Workspace) -> Token:
    """A file that was loaded for this prompt stands for its table."""
    if token.tag == "FILE" and token.value in workspace.loaded:
        return Token("TABLE", workspace.loaded[token.value], token.text)
    return token


def _first(
    rules: Sequence[Rule],
    found: Sentence,
    workspace: Workspace,
    table: Table,
    reasons: list[str],
) -> Step | None:
    """What the first rule makes of the sentence that matches and doesn't object."""
    for rule, core in _matching(rules, found):
        try:
            return rule.build(Ask(replace(found, core=core), workspace, table))
        except MisfitError as misfit:
            reasons.append(str(misfit))
    return None


def _matching(rules: Sequence[Rule], found: Sentence) -> Iterator[tuple[Rule, tuple[Token, ...]]]:
    used = found.used - {"table"}
    for rule in rules:
        needs = set(rule.needs.split())
        if not needs <= used <= needs | set(rule.allows.split()):
            continue
        for core in _cores(found.core):
            if matches(rule.pattern, core):
                yield rule, core
                break


def _cores(core: tuple[Token, ...]) -> Iterator[tuple[Token, ...]]:
    """The core as it is, and without `show` before it."""
    yield core
    if len(core) > 1 and core[0].tag == "SHOW":
        yield core[1:]


def _may_fit(prompt: str, workspace: Workspace, table: Table | None, guesses: Guesses) -> bool:
    """Whether a rule would match if unknown words were columns or values."""
    for order in ORDERS:
        found = tokens(prompt, names_of(workspace, table), order)
        if any(any(_matching(_ON_A_TABLE, sentence(each))) for each in _guessed(found, guesses)):
            return True
    return False


def _guessed(found: Sequence[Token], guesses: Guesses) -> Iterator[list[Token]]:
    """The tokens, with unknown words taken for names in every way."""
    unknown = [i for i, each in enumerate(found) if each.tag in ("UNKNOWN", "QUOTED")]
    if len(unknown) > _MAX_UNKNOWN or not (unknown or guesses is _ANYTHING):
        return
    for tags in product(guesses, repeat=len(unknown)):
        stand_ins = dict(zip(unknown, tags, strict=True))
        yield [
            made
            for i, token in enumerate(found)
            for made in (_named(token, stand_ins[i]) if i in stand_ins else [token])
        ]


def _named(token: Token, tags: tuple[str, ...]) -> list[Token]:
    return [Token(tag, ("", token.text), token.text) for tag in tags]


def _inspect(workspace: Workspace, table: Table) -> Look:
    """Learn the columns of a table."""
    if table.opaque:
        code_ = script(files.schema_line(table.name))

        def learn_printed(output: str) -> Workspace:
            known = dict(block(output, ["column", "dtype"]))
            return workspace.with_table(replace(table, columns=known))

        return Look(f"columns of {table.name}", "run_python", {"code": code_}, learn_printed)

    def learn(output: str) -> Workspace:
        return workspace.with_table(inspected(table, output) or replace(table, opaque=True))

    return Look(f"columns of {table.name}", "inspect_variable", {"name": table.name}, learn)


def _values(workspace: Workspace, table: Table) -> Look:
    """Learn the values of a table's text columns."""
    texts = literal(table.of_kind("text"))
    if table.library == "polars":
        links = [".unpivot()", ".drop_nulls()", ".unique(maintain_order=True)"]
        lines = printed(f"{table.name}[{texts}]", *links, f".head({_MAX_VALUES})", ".write_csv()")
    else:
        links = [".melt()", ".dropna()", ".drop_duplicates()", f".head({_MAX_VALUES})"]
        lines = printed(f"{table.name}[{texts}]", *links, ".to_csv(index=False)")

    def learn(output: str) -> Workspace:
        pairs = tuple((column, value) for column, value in block(output, ["variable", "value"]))
        return workspace.with_table(replace(table, values=pairs))

    return Look(f"values in {table.name}", "run_python", {"code": script(*lines)}, learn)


def _two_tables(prompt: str, workspace: Workspace, reasons: list[str]) -> Step | None:
    """Compare two tables; those that are files are loaded first."""
    found = tokens(prompt, names_of(workspace, None), ORDERS[1])
    found = [_loaded(each, workspace) for each in found]
    tags = {"FILE": "TABLE", "UNKNOWN": "COL"}
    as_tables = [replace(each, tag=tags.get(each.tag, each.tag)) for each in found]
    keyed = matches(comparisons.KEYED, as_tables)
    if not keyed and not matches(comparisons.TABLES, as_tables):
        return None
    targets = [each for each in found if each.tag in ("TABLE", "FILE")]
    for target in targets:
        if target.tag == "FILE":
            return files.loading(target.value, workspace) if is_table_file(target.value) else None
        if workspace.tables[target.value].columns is None:
            return _inspect(workspace, workspace.tables[target.value])
    one, other = (workspace.tables[target.value] for target in targets)
    return _compared(prompt, workspace, (one, other), keyed, reasons)


def _compared(
    prompt: str,
    workspace: Workspace,
    pair: tuple[Table, Table],
    keyed: bool,
    reasons: list[str],
) -> Step | None:
    one, other = pair
    found = tuple(tokens(prompt, names_of(workspace, one), ORDERS[1]))
    key = next((each.value for each in found if each.tag == "COL"), None) if keyed else None
    try:
        if one.name == other.name:
            raise MisfitError(f"{code(one.name)} is one table; name another to compare it with.")
        if keyed and key is None:
            return None
        return comparisons.two_tables(Ask(Sentence(found), workspace, one), other, key)
    except MisfitError as misfit:
        reasons.append(str(misfit))
        return None


def _same(one: Step, other: Step) -> bool:
    if isinstance(one, Say) or isinstance(other, Say):
        return one == other
    return (one.tool, one.arguments) == (other.tool, other.arguments)


def _unknown(prompt: str, workspace: Workspace) -> list[str]:
    """The words that nothing accounts for, as they were written."""
    readings = [
        _strange(tokens(prompt, names_of(workspace, table)))
        for table in (*workspace.tables.values(), None)
    ]
    return list(dict.fromkeys(min(readings, key=lambda words: len(words))))


def _strange(found: Sequence[Token]) -> list[str]:
    return [each.text for each in found if each.tag in ("UNKNOWN", "TURNING")]
