"""The gist of a call: its kind, a title and its changes, so that many can be scanned.

The title of code says what it reads, makes and changes, as far as its names say. Nobody decides by
it: code may do more than it says.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import takewhile

from ipyagent import schema
from ipyagent.plaintext import join_some, plural, word_set
from ipyagent.syntax import root_name, try_parse
from ipyagent.ui import transcript
from ipyagent.ui.reveal import LINE, reveal, shorten
from ipyagent.ui.transcribe.call_texts import in_order, summarize_call

_OWN = word_set("delegate delete edit find insert inspect list load move query read run save write")
"""Verbs with which the names of tools begin."""


def find_gist(execution: schema.ToolExecution, summary: str) -> transcript.Gist:
    """Return the gist of a call; `summary` is its own where that says more than its arguments."""
    kind = _find_kind(execution)
    title = summary or _find_title(execution, looks=kind == "look")
    return transcript.Gist(
        kind=kind,
        title=shorten(title, LINE),
        changes=tuple(_list_changes(execution, execution.result)) if execution.result else (),
    )


def title_planned(call: schema.ToolCall) -> str:
    """Return a title for a call that has not begun: by its code, or its first argument."""
    first = call.model_copy(update={"arguments": dict(in_order(call)[:1])})
    return shorten(_find_title(schema.ToolExecution(call=first), looks=False), LINE)


def _find_kind(execution: schema.ToolExecution) -> transcript.Kind:
    if execution.question:
        return "question"
    if execution.preview and execution.preview.kind == "diff":
        return "file"
    looked = execution.decided_by is schema.DecidedBy.REHEARSAL
    child = execution.result.child if execution.result else None
    is_change = execution.has_changes if child else execution.sensitive and not looked
    return "change" if is_change else "look"


def _find_title(execution: schema.ToolExecution, *, looks: bool) -> str:
    call, code = execution.call, execution.call.arguments.get("code")
    if isinstance(code, str):
        return title_code(code, looks=looks)
    verb, _, noun = reveal(call.name).partition("_")
    if execution.preview and (place := execution.preview.place):
        return f"{verb}s {place}"
    does = "queries" if verb == "query" else f"{verb}{'s' * (verb in _OWN)}"
    rest = summarize_call(execution) if in_order(call) else ""
    if isinstance(sql := call.arguments.get("sql"), str):
        tables = dict.fromkeys("".join(each) for each in _TABLES.findall(sql[:_LONG]))
        rest = join_some([*tables], _NAMED) or rest
    return f"{does} {noun.replace('_', ' ')} {rest}"


def _list_changes(
    execution: schema.ToolExecution, result: schema.ToolResult
) -> Iterator[transcript.EffectLine]:
    """Yield the variables and files that a call changed; a diff names its own file."""
    for each in result.variables:
        parts = each.summary.split(" · ") if each.change == "changed" else [each.change]
        parts = parts[1:] if len(parts) > 1 and " × " in parts[0] else parts  # noqa: RUF001
        text = shorten(f"{each.name} {' · '.join(parts)}", LINE)
        there = "" if each.change == "deleted" else each.name
        yield transcript.EffectLine(
            change=each.change, text=text, diff=each.cells, variable=find_name(there, text)
        )
    has_diff = execution.preview and execution.preview.kind == "diff"
    for file in () if has_diff else result.files:
        change: transcript.Change
        change = "created" if file.before is None else "changed" if file.after else "deleted"
        yield transcript.EffectLine(change=change, text=shorten(f"{file.path} {change}", LINE))


def find_name(name: str, text: str) -> str:
    """Return the name of a variable, if a text begins with it as it is; else ""."""
    return name if name.isidentifier() and f"{text} ".startswith(f"{name} ") else ""


_NAMED = 2
"""Names in a title; more are counted."""

_LONG = 20_000
"""Characters of code that are looked at."""

_PLOTTING = word_set("alt altair ax axes axs go matplotlib plotly plt px seaborn sns")
_LIBRARIES = _PLOTTING | word_set(
    "asyncio datetime duckdb json math np numpy os pandas pd pl polars re requests scipy shutil "
    "sklearn sm smf sp sqlite3 subprocess sys time warnings"
)
"""Names under which libraries are known, also where an earlier cell has imported them."""

_DELETING = re.compile(r"remove|rmdir|rmtree|unlink")
_WRITING = re.compile(r"to_\w+|dump|rename|save\w*|imsave|write\w*")
_READING = re.compile(r"read_(?!sql)\w+|scan_\w+|open|r?glob|iterdir|listdir|load\w*|imread")
_PLOT = re.compile(r"\w*plot|hist|pie|barh?")
_CONNECTING = re.compile("connect")
_MAY_BE_OTHERS = word_set("load load_state_dict loads open")
"""Functions that read a file only if one is named in their call."""
_ACCESSORS = word_set("at dt iat iloc loc str values")

_FILE = re.compile(r"(?:https?://\S+|[^\s*?<>]*\w\.[A-Za-z]\w{0,7})")
_QUERY = re.compile(r"(?i)\s*(?:select|with)\s")
_TABLE = re.compile(r"(?i)\b(?:from|join)\s+([A-Za-z_]\w*)")
_TABLES = re.compile(r"""(?i)\b(?:from|join)\s+(?:'([^']+)'|"([^"]+)"|([a-z_]\w*(?!\w|\s*\()))""")
"""The tables and files that SQL names."""
_LABEL = re.compile(r"\w(?:[\w .-]{0,30}\w)?")
"""The name of a column, as far as it can be told from other texts."""

_MAGIC = re.compile(r"(?m)^(\s*)[%!](.*)$")
_ESCAPE = re.compile(r"""\\(?![\n'"\\])""")
"""Escapes, of which Python would warn if they are unknown."""

_LOOKS = "looks at"
_ASIDE = ("makes", _LOOKS, "imports")
"""Facts that are named only where there is no other."""


@lru_cache(maxsize=64)
def title_code(code: str, *, looks: bool = True) -> str:
    """Return a title for code: the comment that it begins with, else what its names say.

    Code that not only `looks` works on things: a method may change what it is called on.
    """
    begin = code[:_LONG].strip()
    comment = takewhile(lambda line: line.startswith("#"), begin.split("\n"))
    lines = (line.strip("#%=*~- \t") for line in comment if not line.startswith("#!"))
    if words := next(filter(None, lines), ""):
        return words
    tree = try_parse(_MAGIC.sub(r"\1pass", _ESCAPE.sub("_", begin)))
    facts = {verb: [*dict.fromkeys(names)] for verb, names in _Code(tree).facts()} if tree else {}
    found = [verb for verb, names in facts.items() if names]
    telling = [verb for verb in found if verb not in _ASIDE][:_NAMED] or found[:1]
    said = {} if looks else {_LOOKS: "works on"}
    title = ", ".join(f"{said.get(v, v)} {join_some(facts[v], _NAMED)}" for v in telling)
    if not title and (magic := _MAGIC.match(begin)):
        return f"runs {magic[2].strip('%! ')}"
    return title or f"runs {plural(code.strip().count(chr(10)) + 1, 'line')}"


class _Code:
    """The nodes of a tree in the order of their ends, and what its names stand for."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree, self.nodes = tree, _sort(ast.walk(tree))
        self.calls = [each for each in self.nodes if isinstance(each, ast.Call)]
        self.called = {id(each.func) for each in self.calls}
        imports = [e for e in self.nodes if isinstance(e, ast.Import | ast.ImportFrom)]
        names = [(each, alias) for each in imports for alias in each.names]
        modules = [getattr(each, "module", "") or alias.name for each, alias in names]
        self.imported = [each.partition(".")[0] for each in modules]
        self.libraries = _LIBRARIES | {(a.asname or a.name).partition(".")[0] for _, a in names}
        self.assigned = [*_assignments(tree.body)]
        self.plotting = _PLOTTING
        self.drawn = {*self._find_plots()}
        self.plotting |= {n for names, value in self.assigned if self._plots(value) for n in names}
        self.drawn = {*self._find_plots()}
        stored = (e for e in self.nodes if isinstance(getattr(e, "ctx", None), ast.Store))
        arguments = (each.arg for each in self.nodes if isinstance(each, ast.arg))
        self.bound = {*arguments, *(name for each in stored for name in _names(each))}

    def facts(self) -> Iterator[tuple[str, Iterable[str]]]:
        """Yield each verb, first those of what changes most, with the names that it is for."""
        made = [n for names, value in self.assigned if not self._plots(value) for n in names]
        own, inputs = {*made}, self.inputs(self.tree)
        dropped = (t for e in self.nodes if isinstance(e, ast.Delete) for t in e.targets)
        deleted = [*map(root_name, dropped), *self.files_of(_DELETING)]
        to_write = [call for call in self.calls if _writes(call)]
        written = [*self.files_of(_WRITING), *(f for call in to_write for f in _files(call))]
        opened = self.files_of(_CONNECTING)
        read = self._read({*deleted, *written, *opened})
        changed = {*self._find_changes(own)}
        yield "deletes", deleted
        yield "writes", written
        yield "changes", sorted(changed)
        yield "sets", self._sets(changed)
        yield "opens", opened
        yield "reads", read or [each for each in inputs if opened and each not in own]
        yield "calls", [each for each in _files(self.tree) if "://" in each and not read]
        yield "plots", self._list_plots()
        yield "fits", self._list_fitted()
        defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        yield "defines", (each.name for each in self.tree.body if isinstance(each, defined))
        yield "makes", _name_with(made, "from", [e for e in inputs if e not in own])
        if len({*inputs}) == 1:
            inputs = _name_with(inputs, ":", self._labels() or self._methods())
        yield _LOOKS, inputs
        only_imports = all(isinstance(e, ast.Import | ast.ImportFrom) for e in self.tree.body)
        yield "imports", self.imported if only_imports else ()

    def inputs(self, root: ast.AST, *, bound: bool = False) -> list[str]:
        """Return the variables and SQL tables that a part uses; with `bound`, those made here."""
        known = self.libraries | self.plotting | {*dir(builtins)} | (set() if bound else self.bound)
        found = list[str]()
        for each in _sort(ast.walk(root)):
            if isinstance(each, ast.Name) and id(each) not in self.called:
                found += [each.id] if each.id not in known else []
            elif _QUERY.match(_text(each)):
                found += _TABLE.findall(_text(each))
        return found

    def files_of(self, names: re.Pattern[str]) -> list[str]:
        """Return the files in calls of functions with these names."""
        return [f for call in self.calls if names.fullmatch(_name(call)) for f in _files(call)]

    def _find_plots(self) -> Iterator[ast.Call]:
        """Yield the calls that draw."""
        for call in self.calls:
            if isinstance(call.func, ast.Attribute):
                above = getattr(call.func.value, "attr", "")  # as in `sales.plot.bar()`
                if root_name(call) in self.plotting or any(
                    map(_PLOT.fullmatch, (_name(call), above))
                ):
                    yield call

    def _plots(self, value: ast.AST) -> bool:
        """Return whether a part has a call that draws."""
        return not self.drawn.isdisjoint(ast.walk(value))

    def _list_plots(self) -> list[str]:
        chained = {getattr(each.func, "value", None) for each in self.drawn}
        drawn = [each for each in self.calls if each in self.drawn and each not in chained]
        found = [name for call in drawn for name in self.inputs(call, bound=True)]
        return found or [*map(root_name, drawn)]

    def _read(self, aside: set[str]) -> list[str]:
        """Return the files that are read, and the variables that come of them."""
        calls = [c for c in self.calls if _READING.fullmatch(_name(c)) and not _writes(c)]
        calls = [c for c in calls if _files(c) or _name(c) not in _MAY_BE_OTHERS]
        files = [each for each in dict.fromkeys(_files(self.tree)) if each not in aside]
        of, inside = set[str](), {*map(id, calls)}
        for names, value in [*self._bindings(), *self.assigned]:
            if any(id(e) in inside or getattr(e, "id", "") in of for e in ast.walk(value)):
                of.update(names)
        made = dict.fromkeys(name for names, _ in self.assigned for name in names if name in of)
        used = ((names, part) for names, value in self.assigned for part in ast.walk(value))
        parts = {
            getattr(part, "id", "") for names, part in used if getattr(part, "id", "") not in names
        }
        last = [each for each in made if each not in parts] or [*made][-1:]
        what = files[0] if len(files) == 1 else plural(len(files), "file") if files else "files"
        return [" → ".join([what, *([join_some(last, _NAMED)] if last else [])])] if calls else []

    def _bindings(self) -> Iterator[tuple[list[str], ast.AST]]:
        """Yield the names that loops, contexts and methods bind or fill, with what they get."""
        for each in self.nodes:
            if isinstance(each, ast.For | ast.comprehension):
                yield _names(each.target), each.iter
            elif isinstance(each, ast.withitem) and each.optional_vars:
                yield _names(each.optional_vars), each.context_expr
            elif isinstance(each, ast.Call) and _name(each) in ("append", "extend", "update"):
                yield [root_name(each)], each

    def _find_changes(self, own: set[str]) -> Iterator[str]:
        """Yield variables that it did not make itself, and binds again or changes in place."""
        made: set[str] = set()
        for names, value in self.assigned:
            used = {getattr(part, "id", "") for part in ast.walk(value)} - made
            yield from used.intersection(names)
            made.update(names)
        for each in self.nodes:
            target = each.target if isinstance(each, ast.AugAssign) else None
            is_in_place = isinstance(each, ast.Call) and any(
                k.arg == "inplace" and getattr(k.value, "value", None) for k in each.keywords
            )
            name = root_name(each) if is_in_place else getattr(target, "id", "")
            yield from {name} - own - {""}

    def _sets(self, changed: set[str]) -> list[str]:
        """Return the columns and attributes that are set, and of what."""
        found = list[tuple[str, str]]()
        for each in self.nodes:
            target = each if isinstance(getattr(each, "ctx", None), ast.Store) else None
            if isinstance(target, ast.Subscript):
                parts = getattr(target.slice, "elts", [target.slice])
                parts = [part for each in parts for part in getattr(each, "elts", [each])]
                found += [(root_name(target), text) for text in map(_text, parts) if text]
            elif isinstance(target, ast.Attribute):
                found.append((root_name(target), target.attr))
        labels = {label: frame for frame, label in found if frame not in changed}
        what = [*labels] if len(labels) < 2 else [plural(len(labels), "column")]
        return _name_with(what, "of", [*labels.values()])

    def _list_fitted(self) -> list[str]:
        """Return the variables that fitted models are bound to, else those that are fitted."""
        bound: dict[int, str] = {}
        for names, value in reversed(self.assigned):
            bound.update((id(part), names[0]) for part in ast.walk(value) if names)
        fits = (call for call in self.calls if _name(call) == "fit")
        return [bound.get(id(call)) or root_name(call) for call in fits]

    def _labels(self) -> list[str]:
        """Return columns and attributes that are named."""
        found = list[str]()
        for each in self.nodes:
            parts: list[ast.AST] = []
            if isinstance(each, ast.Subscript):
                parts = [*ast.walk(each.slice)]
            elif isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute):
                arguments = [] if root_name(each) in self.libraries else each.args
                parts = [part for argument in arguments for part in ast.walk(argument)]
            elif isinstance(each, ast.Attribute) and id(each) not in self.called:
                is_own = root_name(each) not in self.libraries and each.attr not in _ACCESSORS
                found += [each.attr] if is_own else []
            found += [text for text in map(_text, parts) if _LABEL.fullmatch(text)]
        return found

    def _methods(self) -> list[str]:
        methods = [each for each in self.calls if isinstance(each.func, ast.Attribute)]
        return [_name(each) for each in methods if root_name(each) not in self.libraries]


def _name_with(names: Iterable[str], word: str, others: Iterable[str]) -> list[str]:
    """Return names and what they are `of`, each as at most a few, in one text; or nothing."""
    first, second = (join_some([*dict.fromkeys(each)], _NAMED) for each in (names, others))
    link = f" {word} ".replace(" :", ":")
    return [f"{first}{link}{second}" if second else first] if first else []


def _sort(nodes: Iterable[ast.AST]) -> list[ast.AST]:
    """Return nodes in the order of their ends, in which chains are read."""
    return sorted(
        nodes, key=lambda e: (getattr(e, "end_lineno", 0), getattr(e, "end_col_offset", 0))
    )


def _assignments(body: Iterable[ast.AST]) -> Iterator[tuple[list[str], ast.expr]]:
    """Yield the names that statements assign, with the values; not those in functions."""
    for each in body:
        if isinstance(each, ast.Assign):
            yield [name for target in each.targets for name in _names(target)], each.value
        elif isinstance(each, ast.AnnAssign) and each.value:
            yield _names(each.target), each.value
        elif not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for name in ("body", "handlers", "orelse", "finalbody"):
                yield from _assignments(getattr(each, name, []))


def _names(target: ast.AST) -> list[str]:
    """Return the names that a target binds."""
    parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    return [each.id for each in parts if isinstance(each, ast.Name) and each.id != "_"]


def _name(call: ast.Call) -> str:
    """Return the last name of a called function."""
    func = call.func
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")


def _text(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _files(root: ast.AST) -> list[str]:
    """Return the texts in a part that look like files and addresses."""
    return [text for text in map(_text, _sort(ast.walk(root))) if _FILE.fullmatch(text)]


def _writes(call: ast.Call) -> bool:
    """Return whether a call opens a file to write it."""
    modes = [*call.args[1:2], *(each.value for each in call.keywords if each.arg == "mode")]
    return _name(call) == "open" and any({*_text(each)} & {*"wax+"} for each in modes)
