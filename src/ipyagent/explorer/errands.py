"""Requests that are not about the inside of a table: files, variables, talk about the explorer.

Looks at what nobody described are here, too.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import PurePosixPath

from ipyagent.explorer.answers import render
from ipyagent.explorer.frame import Frame, compile_pattern, first_of, literal, spell_tags, values_of
from ipyagent.explorer.intents import INTENTS, Query, bind
from ipyagent.explorer.text import UnreadableError, block, code, codes, fence, figures, fresh, words
from ipyagent.explorer.workspace import (
    SHEET,
    UNCLEAR,
    FileReading,
    Look,
    MisfitError,
    Say,
    Step,
    Table,
    Task,
    Workspace,
    is_table_file,
    of_context,
    table_from_inspection,
    with_files,
    with_variables,
)  # fmt: skip
from ipyagent.providers import default_models

_READERS = {
    "csv": "pd.read_csv({})", "tsv": 'pd.read_csv({}, sep="\\t")',
    "parquet": "pd.read_parquet({})", "xlsx": "pd.read_excel({})",
    "json": "pd.read_json({})", "jsonl": "pd.read_json({}, lines=True)",
}  # fmt: skip
SCHEMA = ["column", "dtype"]
_ABOUT = """\
I am a **deterministic data explorer, not a language model**. I turn clear requests into ordinary \
tool calls and tell you what they returned. I understand requests to

- list and read files, load tables (csv, tsv, parquet, xlsx, json)
- profile a table: size, types, missing values, duplicates, outliers, correlations
- compute statistics, counts and shares: by group, with a filter, rounded; what is highest
- compare two groups or two tables, test, correlate, plot
- change a table: fill, drop, rename, convert, add a column, sort, join, save

Try one of these:"""

_LANGUAGES: dict[str, dict[str, str]] = tomllib.loads(
    files("ipyagent.explorer").joinpath("languages.toml").read_text("utf-8")
)
_MARKS = {name: frozenset(each["words"].split()) for name, each in _LANGUAGES.items()}


def load_line(path: str, name: str, workspace: Workspace) -> str:
    """Return the line that loads a table file into a variable, as its description says."""
    ending = _ending(path)
    known = workspace.readings.get(path)
    reader = (known and known.code) or _READERS[ending].format(literal(path))
    columns = workspace.profiles.get(path, Table("")).columns or {}
    numbered = ending == "xlsx" and any(name[:1].isdigit() for name in columns)
    if numbered or "header=None" in reader:
        reader += ".rename(columns=str)"
    return f"{name} = {reader}"


def _ending(path: str) -> str:
    return re.sub(r"\.(gz|bz2|xz|zip)$", "", path.lower()).rpartition(".")[2]


def load_code(path: str, name: str, workspace: Workspace) -> str:
    """Return code that loads a table file into a variable and prints its size and columns.

    Of a text file that nobody has described, it prints the index, and how many cells the last
    column has: names and values do not fit where lines end in a separator.
    """
    ending = _ending(path)
    index = f'print("index:", {name}.index[:1], {name}.iloc[:, -1].count())'
    lines = [index] if path not in workspace.readings and ending in ("csv", "tsv") else []
    size = f'print(len({name}), "rows")'
    return "\n".join([load_line(path, name, workspace), size, *lines, schema_line(Table(name))])


def name_source(path: str, workspace: Workspace) -> str:
    """Return the name of a file, and the sheet that is read of it, if that is named."""
    known = workspace.readings.get(path, FileReading())
    sheet = SHEET.search(known.code)
    return code(path) + (f" (sheet {code(sheet[2])})" if sheet else "")


def read_schema(output: str) -> dict[str, str]:
    """Return the columns that `load_code` prints; raises UnreadableError if they look wrong."""
    columns = dict(block(output, SCHEMA))
    if found := re.search(r"^index: (\w+).* (\d+)$", output, re.MULTILINE):
        glued = len(columns) == 1 and re.search(r"[;|\t]", next(iter(columns)))
        if found[1] != "RangeIndex" or found[2] == "0" or glued:
            raise UnreadableError("its rows and its header do not fit")
    return columns


def explain_doubt(path: str, workspace: Workspace) -> Say | None:
    """Return why a file is not loaded, and the readings to choose from; None if there is none."""
    reading = workspace.readings.get(path, FileReading())
    if not reading.doubt:
        return None
    name = fresh(PurePosixPath(path).stem, workspace.variables)
    ways = "\n".join(f"{name} = {each}" for each in reading.choices)
    return Say(
        f"{path} is in doubt",
        f"**I can't tell how {code(path)} is meant, so I loaded nothing:** {reading.doubt}. "
        f"Run the line that is right, and ask again:\n\n{fence(ways, 'python')}",
    )


def schema_line(table: Table) -> str:
    """Return a line that prints the columns of a table and their types."""
    if table.library == "polars":
        columns = f"{table.name}.columns, {table.name}.dtypes"
        return f'print("column,dtype", *map("{{}},{{}}".format, {columns}), sep="\\n")'
    return f'print({table.name}.dtypes.rename("dtype").to_csv(index_label="column"))'


def list_files(frame: Frame, workspace: Workspace) -> Step:
    """List the files, of a folder or with an ending."""
    folder = first_of(frame.core, "FOLDER", default="")
    ending = first_of(frame.core, "ENDING")
    pattern = {"pattern": f"*.{ending}"} if ending else {}
    arguments = {"path": folder.rstrip("/") or ".", "recursive": True, **pattern}
    kind = f"{ending} files" if ending else "files"
    where = f"{kind} in {code(folder) if folder else 'the workspace'}"

    def answer(output: str) -> str:
        if output.strip().startswith("(empty") or not output.strip():
            return f"There are no {where}."
        return f"**The {where}**\n\n{fence(output)}"

    return Task(f"list {kind}", "list_files", arguments, answer)


def read_file(frame: Frame, workspace: Workspace) -> Step:
    """Show the beginning of a file, or a short one whole."""
    path = frame.named[0].value
    limit = first_of(frame.core, "NUMBER", default=10 if is_table_file(path) else None)
    if limit is not None and not (isinstance(limit, int) and 0 < limit <= 1000):
        raise MisfitError("I can show 1 to 1000 lines.")
    arguments = {"path": path, **({"limit": limit} if limit else {})}
    head = f"**The first {limit} lines of {code(path)}**" if limit else f"**{code(path)}**"
    most = (limit or 60) + 2
    return Task(
        f"read {path}", "read_file", arguments, lambda o: f"{head}\n\n{fence(o, lines=most)}"
    )


def load(frame: Frame, workspace: Workspace) -> Step:
    """Load a table file into a variable."""
    paths = values_of(frame.named, "FILE") or workspace.table_files
    if len(paths) != 1:
        which = f"Load which file: {codes(paths)}?"
        raise MisfitError(which if paths else "I see no table to load.")
    (path,), given = paths, first_of(frame.core, "NAME")
    if not is_table_file(path):
        raise MisfitError(
            f"{code(path)} is no table that I can load (csv, tsv, parquet, xlsx, json)."
        )
    stem = fresh(PurePosixPath(path).stem, ())
    if not given and stem in workspace.tables:
        return Say(
            f"{path} seems loaded already",
            f"There is a table {code(stem)} already, so I loaded nothing. To load the file again, "
            f"say “Load {path} as {stem}”, or give it another name.",
        )
    if doubt := explain_doubt(path, workspace):
        return doubt
    name = given or fresh(stem, workspace.variables)
    note = " It replaces what that variable held before." if name in workspace.variables else ""

    def answer(output: str) -> str:
        columns = read_schema(output)
        (rows,) = figures(output, r"(\d+) rows")
        size = f"{int(rows):,} rows, {len(columns)} columns"
        return (
            f"Loaded {name_source(path, workspace)} into **{code(name)}**: {size}.{note}"
            f"\n\nColumns: {codes(columns)}.\n\nNext: “Profile {name}”."
        )

    made = load_code(path, name, workspace)
    return Task(f"load {path} as {name}", "run_python", {"code": made}, answer)


def list_variables(frame: Frame, workspace: Workspace) -> Step:
    """List the variables."""

    def answer(output: str) -> str:
        is_empty = output.strip()[:1] in ("", "(")
        shown = f"**The variables in this kernel**\n\n{fence(output)}"
        return "There are no variables yet." if is_empty else shown

    return Task("list the variables", "list_variables", {}, answer)


def inspect(frame: Frame, workspace: Workspace) -> Step:
    """Inspect a variable."""
    name = first_of([*frame.core, *frame.named], "VAR", "TABLE")
    head = f"**{code(name)}**"
    arguments = {"name": name}
    return Task(f"inspect {name}", "inspect_variable", arguments, lambda o: f"{head}\n\n{fence(o)}")


# Talk.


def find_language(prompt: str) -> str | None:
    """Return the language of a prompt, if it is one of those that get a reply in it."""
    said = re.findall(r"[^\W\d_]+", prompt.casefold())
    scores = {name: sum(word in marks for word in said) for name, marks in _MARKS.items()}
    best = max(scores, key=scores.__getitem__)
    is_clear = scores[best] >= max(2, (len(said) + 2) // 3)
    return best if is_clear and best != "English" else None


def suggest_for(context: str) -> list[str]:
    """Return three requests that fit a context block; none if it has nothing to ask about."""
    workspace = of_context(context)
    has_data = workspace.variables or any(not each.endswith(".ipynb") for each in workspace.files)
    return _suggest(workspace) if has_data else []


def _suggest(workspace: Workspace) -> list[str]:
    """Return three requests that are understood in this workspace."""
    if table := next(iter(workspace.tables.values()), None):
        name, numbers, texts = code(table.name), table.of_kind("number"), table.of_kind("text")
        floats = [n for n in numbers if "float" in table.dtype(n).lower()] or numbers
        middle = f"Histogram of {code(floats[-1])}" if floats else f"First 5 rows of {name}"
        if texts:
            what = f"Plot {code(floats[-1])}" if floats else f"Count {name}"
            middle = f"{what} by {code(texts[0])}"
        return [f"Profile {name}", middle, f"Missing values in {name}"]
    for path in workspace.table_files[:1]:
        return [f"{do} {code(path)}" for do in ("Load", "Profile", "Missing values in")]
    return ["List files", "What variables are there?", "What can you do?"]


def _with_suggestions(text: str, workspace: Workspace) -> str:
    """Return a text with requests to try after it, and how to use a language model instead."""
    suggestions = "\n".join(f"- {each}" for each in _suggest(workspace))
    return (
        f"{text}\n\n{suggestions}\n\nFor free conversation, set an API key such as "
        f"`{next(iter(default_models()))}`, or choose a model: `%agent model ollama/qwen3`."
    )


def help_out(frame: Frame | None, workspace: Workspace) -> Say:
    """Describe the explorer's abilities."""
    return Say("help", _with_suggestions(_ABOUT, workspace))


def welcome(frame: Frame, workspace: Workspace) -> Say:
    """Answer thanks."""
    return Say("thanks", _with_suggestions("You're welcome. What next?", workspace))


def decline(
    workspace: Workspace, unknown: Sequence[str], reasons: Sequence[str], offers: Sequence[str] = ()
) -> Say:
    """Decline honestly: name the unknown words, and why the words that fit do not apply."""
    names = [f"These words are beyond me here: {codes(unknown)}."] if unknown else []
    why = " ".join(dict.fromkeys([*reasons, *names])) or UNCLEAR
    meant = "Did you mean\n\n" + "\n".join(f"- {o}" for o in offers) + "\n\n" if offers else ""
    text = (
        f"**I can't answer that without guessing.** I'm a data explorer, not a language model. "
        f"{why}\n\n{meant}Try one of these:"
    )
    rule = f"unknown words {', '.join(unknown)}" if unknown else why
    return Say(f"declined: {rule}", _with_suggestions(text, workspace), True)


def decline_in(language: str, workspace: Workspace) -> Say:
    """Decline a prompt in another language, in that language."""
    reply = " ".join(_LANGUAGES[language]["reply"].split())
    return Say(f"declined: {language}", _with_suggestions(reply, workspace), True)


_WAYS: tuple[tuple[str, str, Callable[[Frame, Workspace], Step]], ...] = (
    ("HELP THANKS?", "", help_out),
    ("THANKS (AND? THANKS)*", "", welcome),
    ("SHOW? (LOOK|FILES) (LOOK|FILES|COLUMNS)?", "", list_files),
    ("SHOW? ENDING? FILES? (FOLDER FILES? | FILES)", "", list_files),
    ("SHOW? VARS", "", list_variables),
    ("SHOW? VAR | INSPECT VARS? VAR", "", inspect),
    ("INSPECT VARS?", "TABLE ", inspect),
    ("SHOW FILES? | SHOW? (FIRST NUMBER LINES|NUMBER LINES|LINES) FILES?", "FILE ", read_file),
    ("LOAD FILES? VARS? (TO VARS?)? NAME? | SHOW TO? NAME", "FILE ", load),
    ("LOAD FILES?", "", load),
)
"""Requests that are not about the inside of a table: their words, and the names that they need."""


def find_errand(frame: Frame) -> Callable[[Frame, Workspace], Step] | None:
    """Return how to answer a request that is not about the inside of a table, if it is one."""
    if frame.slots or frame.options:
        return None
    named = spell_tags(frame.named)
    ways = ((compile_pattern(words), do) for words, names, do in _WAYS if names == named)
    return next((do for words, do in ways if words.fullmatch(frame.tags)), None)


# Looks, without whose results a prompt cannot be understood.


def at_variables(workspace: Workspace) -> Look:
    """List the variables."""
    learn = partial(with_variables, workspace)
    return Look("which variables there are", "list_variables", {}, learn)


def at_files(workspace: Workspace) -> Look:
    """List the files."""
    learn = partial(with_files, workspace)
    return Look("which files there are", "list_files", {"path": ".", "recursive": True}, learn)


def at_file(path: str, workspace: Workspace) -> Look | Say:
    """Load a table file that nobody has described into an unused variable, for its columns.

    If it is in doubt how to read the file, say so instead.
    """
    if doubt := explain_doubt(path, workspace):
        return doubt
    name = fresh(PurePosixPath(path).stem, workspace.variables)

    def learn(output: str) -> Workspace:
        return workspace.with_table(Table(name, columns=read_schema(output)), path)

    return Look(f"load {path}", "run_python", {"code": load_code(path, name, workspace)}, learn)


def at_columns(table: Table, workspace: Workspace) -> Look:
    """Get the columns of a table: by inspecting it, or else by printing them."""

    def learn(output: str) -> Workspace:
        if table.opaque:
            return workspace.with_table(replace(table, columns=dict(block(output, SCHEMA))))
        known = table_from_inspection(table, output) or replace(table, opaque=True)
        return workspace.with_table(known)

    rule = f"columns of {table.name}"
    if table.opaque:
        return Look(rule, "run_python", {"code": schema_line(table)}, learn)
    return Look(rule, "inspect_variable", {"name": table.name}, learn)


def at_values(table: Table, said: Sequence[str], workspace: Workspace) -> Look:
    """Find, in each column of text, the values that begin like these words; load a file for it."""
    starts = sorted({word[:4] for text in said for word in words(text)})
    env = bind(INTENTS["values that begin so"], Query(Frame(), table, workspace))
    env.put("cols", table.of_kind("text"))
    env.put("pattern", "|".join(map(re.escape, starts)))
    part, path = render(env), table.path
    lines = [load_line(path, table.name, workspace)] if path else []
    gone = [*part.drop, *[table.name] * bool(explain_doubt(path, workspace))]
    lines += [*part.lines, f"del {', '.join(gone)}"]

    def learn(output: str) -> Workspace:
        pairs = [(column, value) for column, value in block(output, ["variable", "value"])]
        known = tuple(dict.fromkeys((*table.values, *pairs)))
        seen = replace(table, values=known, looked_up=table.looked_up | {*said})
        if explain_doubt(path, workspace):
            return replace(workspace, profiles={**workspace.profiles, path: seen})
        return workspace.with_table(replace(seen, path=""), path)

    return Look(f"values in {table.name}", "run_python", {"code": "\n".join(lines)}, learn)
