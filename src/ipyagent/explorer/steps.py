"""The explorer's steps: a call, or words. Requests for files, variables and help are here, too."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from ipyagent.explorer.answers import UnreadableError
from ipyagent.explorer.frame import MisfitError, compile_pattern
from ipyagent.explorer.lexer import Token, is_table_path
from ipyagent.explorer.text import code, codes, fence, fresh, literal
from ipyagent.json_types import JsonDict
from ipyagent.providers import default_models
from ipyagent.schema.tables import TableFacts, WorkspaceFacts
from ipyagent.syntax import parse

_READERS = {
    "csv": "pd.read_csv({})", "tsv": 'pd.read_csv({}, sep="\\t")',
    "parquet": "pd.read_parquet({})", "xlsx": "pd.read_excel({})",
    "json": "pd.read_json({})", "jsonl": "pd.read_json({}, lines=True)",
}  # fmt: skip
_ABOUT = """\
I am a **deterministic data explorer, not a language model**. I turn clear requests into ordinary \
tool calls and tell you what they returned. One sentence, one question:

- list and read files, load tables, list variables
- profile a table: size, types, missing values, duplicates, outliers, correlations
- statistics, counts and shares: by group, with conditions; the top rows; what is highest
- compare groups, correlate columns, plot them
- change a table: drop, fill, rename, convert, add a column, save

Then “and by year?”, “the bottom 5” or “plot it” go on from there."""


_WELCOME = "You're welcome. Try one of these:"


@dataclass(frozen=True)
class Say:
    """Words. The rule says why."""

    rule: str
    text: str


@dataclass(frozen=True)
class Call:
    """A call of a tool, and how its output is put into words."""

    rule: str
    tool: str
    arguments: JsonDict
    answer: Callable[[str], str]


Step = Say | Call


def run_code(rule: str, source: str, answer: Callable[[str], str], facts: WorkspaceFacts) -> Call:
    """Return the call that runs code, after its imports."""
    return Call(rule, "run_python", {"code": with_imports(source, facts.variables)}, answer)


def with_imports(source: str, variables: Mapping[str, str]) -> str:
    """Return code after its imports, which take other names where the user has theirs."""
    names = [node for node in ast.walk(parse(source)) if isinstance(node, ast.Name)]
    used, imports, renamed = {node.id for node in names}, list[str](), dict[str, str]()
    if "print" in used and "print" in variables:
        module = fresh("builtins", variables)
        imports.append(
            "import builtins" if module == "builtins" else f"import builtins as {module}"
        )
        renamed["print"] = f"{module}.print"
    if "pd" in used:
        alias = "pd" if variables.get("pd", "pandas") == "pandas" else fresh("pandas", variables)
        imports.append("import pandas" if alias == "pandas" else f"import pandas as {alias}")
        renamed |= {"pd": alias} if alias != "pd" else {}
    lines = [line.encode() for line in source.splitlines()]
    for node in sorted(names, key=lambda node: node.col_offset, reverse=True):
        if node.id in renamed:
            line, start, end = lines[node.lineno - 1], node.col_offset, node.end_col_offset
            lines[node.lineno - 1] = line[:start] + renamed[node.id].encode() + line[end:]
    return "\n".join([*imports, *[""] * bool(imports), *(line.decode() for line in lines)])


def loading_call(table: TableFacts) -> str:
    """Return the call that loads a table file; "" if none is known."""
    endings = [each for each in table.path.lower().split(".") if each in _READERS]
    return table.call or (_READERS[endings[-1]].format(literal(table.path)) if endings else "")


def load_line(table: TableFacts, name: str) -> str:
    """Return the line that loads a table file into a variable."""
    return f"{name} = {loading_call(table)}"


def name_for(table: TableFacts, facts: WorkspaceFacts) -> str:
    """Return the variable of a table; of a file, the one that it is loaded into."""
    return table.variable or fresh(PurePosixPath(table.path).name.split(".")[0], facts.variables)


# Errands -----------------------------------------------------------------------------------------


def _list_files(core: Sequence[Token], facts: WorkspaceFacts) -> Step:
    folder = next((t.value for t in core if t.tag == "FOLDER" and t.value), "")
    ending = next((t.text.casefold() for t in core if t.tag == "ENDING"), "")
    pattern = {"pattern": f"*.{ending}"} if ending else {}
    kind = f"{ending} files" if ending else "files"
    where = f"{kind} in {code(folder) if folder else 'the workspace'}"

    def answer(output: str) -> str:
        if output.strip().startswith("(empty") or not output.strip():
            return f"There are no {where}."
        return f"**The {where}**\n\n{fence(output)}"

    arguments = {"path": folder or ".", "recursive": True, **pattern}
    return Call(f"list {kind}", "list_files", arguments, answer)


def _read_file(core: Sequence[Token], facts: WorkspaceFacts) -> Step:
    path = next(t.value for t in core if t.tag == "FILE")
    limit = next((t.value for t in core if t.tag == "NUMBER"), 10 if is_table_path(path) else None)
    if limit is not None and not (isinstance(limit, int) and 0 < limit <= 1000):
        raise MisfitError("I can show 1 to 1000 lines.")
    arguments = {"path": path, **({"limit": limit} if limit else {})}
    head = f"**The first {limit} lines of {code(path)}**" if limit else f"**{code(path)}**"
    most = (limit or 60) + 2
    return Call(
        f"read {path}", "read_file", arguments, lambda o: f"{head}\n\n{fence(o, lines=most)}"
    )


def _load(core: Sequence[Token], facts: WorkspaceFacts) -> Step:
    named = [t.value for t in core if t.tag == "FILE"]
    tables = [t for t in facts.tables if t.path and (t.path in named or not named)]
    if len(tables) != 1:
        which = f"Load which file: {codes(t.path for t in tables)}?"
        raise MisfitError(which if tables else "I see no table that I can load there.")
    (table,) = tables
    given = next((t.value for t in core if t.tag == "NAME"), "")
    stem = fresh(PurePosixPath(table.path).name.split(".")[0], ())
    if not given and any(each.variable == stem for each in facts.tables):
        return Say(
            f"{table.path} seems loaded already",
            f"There is a table {code(stem)} already, so I loaded nothing. To load the file again, "
            f"say “Load {table.path} as {stem}”, or give it another name.",
        )
    name = given or fresh(stem, facts.variables)
    note = " It replaces what that variable held before." if name in facts.variables else ""

    def answer(output: str) -> str:
        lines = [line for line in output.splitlines() if line.startswith("[")]
        try:
            (rows, _), columns = map(json.loads, lines[:2])
        except ValueError:
            raise UnreadableError("no size") from None
        size = f"{rows:,} rows, {len(columns)} columns"
        return (
            f"Loaded {code(table.path)} into **{code(name)}**: {size}.{note}"
            f"\n\nColumns: {codes(map(str, columns))}.\n\nNext: “Profile {name}”."
        )

    shape = f"print([*{name}.shape])"
    columns = f'print({name}.columns.to_series().to_json(orient="values"))'
    source = "\n".join([load_line(table, name), shape, columns])
    return run_code(f"load {table.path} as {name}", source, answer, facts)


def _list_variables(core: Sequence[Token], facts: WorkspaceFacts) -> Step:
    def answer(output: str) -> str:
        shown = f"**The variables in this kernel**\n\n{fence(output)}"
        return shown if facts.variables else "There are no variables yet."

    return Call("list the variables", "list_variables", {}, answer)


def _inspect(core: Sequence[Token], facts: WorkspaceFacts) -> Step:
    name = next(t.value for t in core if t.tag in ("VAR", "TABLE"))
    head = f"**{code(name)}**"
    arguments = {"name": name}
    return Call(f"inspect {name}", "inspect_variable", arguments, lambda o: f"{head}\n\n{fence(o)}")


_WAYS: tuple[tuple[str, Callable[[Sequence[Token], WorkspaceFacts], Step]], ...] = (
    ("(THANKS* HELP THANKS*)?", lambda core, facts: help_out(facts)),
    ("THANKS+", lambda core, facts: Say("thanks", _with_suggestions(_WELCOME, facts))),
    ("(SHOW|WHAT|HERE)* ENDING? FILES (FOLDER FILES?|PLACE)? | (SHOW|HERE)* PLACE", _list_files),
    ("(SHOW|WHAT)* VARS", _list_variables),
    ("(SHOW|WHAT|INSPECT|HERE)* VARS? VAR | INSPECT VARS? TABLE", _inspect),
    ("SHOW? (FIRST? NUMBER? LINES)? FILES? FILE", _read_file),
    ("LOAD FILES? (FILE (TO? NAME)?)? | LOAD NOUN", _load),
)
"""Requests that are not about the inside of a table, by their words."""


def find_errand(tokens: Sequence[Token], facts: WorkspaceFacts) -> Step | None:
    """Return the step for a request that is not about the inside of a table, if it is one."""
    plain = ("STOP", "IS", "HAS", "IN", "OF", "FROM", "COMMA")
    core = [each for each in tokens if each.tag not in plain]
    tags = "".join(f"{each.tag} " for each in core)
    ways = (make for words, make in _WAYS if compile_pattern(words).fullmatch(tags))
    make = next(ways, None)
    return make(core, facts) if make else None


# Talk --------------------------------------------------------------------------------------------


def suggest(facts: WorkspaceFacts) -> list[str]:
    """Return up to six requests about the first table; they are understood in this workspace."""
    tables = [each for each in facts.tables if each.variable] or [*facts.tables]
    if not tables:
        return ["List files", "What variables are there?", "What can you do?"]
    table = tables[0]
    name, columns = code(table.variable or table.path), table.columns or ()
    known = {kind: [c for c in columns if c.kind == kind] for kind in ("number", "text")}
    floats = [c for c in known["number"] if c.dtype.casefold().startswith("float")]
    numbers = [code(c.name) for c in floats or known["number"] if not c.is_key]
    texts = [code(c.name) for c in known["text"] if c.choices and not c.is_key]
    of = "" if table.variable and len(tables) == 1 else f" in {name}"
    tasks = [] if table.variable else [f"Load {name}"]
    tasks += [f"Profile {name}", f"Missing values in {name}"]
    if numbers and texts:
        tasks += [f"Plot {numbers[-1]} by {texts[0]}{of}", f"Mean {numbers[-1]} by {texts[0]}{of}"]
    elif numbers or texts:
        tasks += [f"Plot {(numbers or texts)[-1]}{of}"]
    if numbers:
        tasks += [f"Top 5 rows by {numbers[-1]}{of}"]
    tasks += [f"Correlation matrix of {name}"] * (len(known["number"]) > 1)
    return tasks[:6]


def suggest_for(facts: WorkspaceFacts) -> list[str]:
    """Return requests that fit the workspace; none if it has nothing to ask about."""
    has_data = facts.variables or any(not each.endswith(".ipynb") for each in facts.files)
    return suggest(facts) if has_data else []


def _with_suggestions(text: str, facts: WorkspaceFacts) -> str:
    """Return a text with requests to try after it, and how to use a language model instead."""
    suggestions = "\n".join(f"- {each}" for each in suggest(facts))
    return (
        f"{text}\n\n{suggestions}\n\nFor free conversation, set an API key such as "
        f"`{next(iter(default_models()))}`, or choose a model: `%agent model ollama/qwen3`."
    )


def help_out(facts: WorkspaceFacts) -> Say:
    """Describe the explorer's abilities."""
    return Say("help", _with_suggestions(f"{_ABOUT}\n\nTry one of these:", facts))


def decline(facts: WorkspaceFacts, unknown: Sequence[str], reasons: Sequence[str]) -> Say:
    """Decline honestly: name the unknown words, and why the words that fit do not apply."""
    names = [f"These words are beyond me here: {codes(unknown)}."] if unknown else []
    unclear = "The words are known, but not in this combination."
    why = " ".join(dict.fromkeys([*reasons, *names])) or unclear
    text = (
        f"**I can't answer that without guessing.** I'm a data explorer, not a language model. "
        f"{why}\n\nTry one of these:"
    )
    rule = f"unknown words {', '.join(unknown)}" if unknown else why
    return Say(f"declined: {rule}", _with_suggestions(text, facts))
