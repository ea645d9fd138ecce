"""Reading Python code: which of the things outside of variables it would touch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping

from ipyagent.tools.reach import tables, texts
from ipyagent.tools.reach.found import (
    NETWORK,
    READS,
    UNREADABLE,
    WRITES,
    Reach,
)
from ipyagent.tools.reach.origins import (
    BUFFER,
    DATA,
    FILE,
    OPAQUE,
    PARAMETER,
    PATH,
    UNKNOWN,
    Names,
    is_library,
)
from ipyagent.tools.reach.parts import (
    keyword,
    kinds_of,
    leads_on,
    name_of,
    reads_input,
    takes_code,
)

_FEW_NAMED = frozenset({"os", "sys", "asyncio"})
"""Modules of which only what is listed can be used."""
_DUNDERS = frozenset({"__name__", "__doc__", "__version__", "__init__", "__len__"})
_UNDERSCORED = frozenset({"_asdict", "_replace", "_fields", "_repr_html_", "_"})
_HIDDEN_NAME = re.compile(r"__\w+__")
_FLAGS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_OUTPUTS = frozenset({"path_or_buf", "buf", "path", "filename", "file"})
_INPUTS = _OUTPUTS | {"filepath_or_buffer", "io", "source", "fname"}
_OPTIONS = ("pandas.options.display.", "pandas.options.mode.")
_LONGEST = 200_000


def read_code(code: str, variables: Mapping[str, object], subject: str = "code") -> Reach:
    """Return what code would touch that runs among those variables."""
    try:
        if len(code) > _LONGEST:
            return Reach({UNREADABLE: "it is too long"}, subject=subject)
        tree = compile(code, "<code>", "exec", _FLAGS)
        reader = _Reader(Names(tree, variables))
        reader.visit(tree)
    except SyntaxError:
        why = "a % or ! line" if re.search(r"^\s*[%!]", code, re.MULTILINE) else "not plain Python"
        return Reach({UNREADABLE: why}, subject=subject)
    except (ValueError, RecursionError, MemoryError):
        return Reach({UNREADABLE: "not plain Python"}, subject=subject)
    redefines = [name for name in _top_level(tree) if name in variables]
    return Reach(
        reader.touches,
        tuple(name for name in reader.loaded if name in variables),
        tuple(reader.paths),
        tuple(dict.fromkeys(redefines)),
        subject,
    )


def literals(code: str) -> list[str]:
    """Return the pieces of text that stand in code, such as what it prints beside values."""
    try:
        tree = compile(code, "<code>", "exec", _FLAGS)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    parts = [re.split(r"\{[^{}]*\}|%[-+ #0-9.]*[a-z]|\n", t) for t in texts if isinstance(t, str)]
    return [part for each in parts for part in each if len(part.strip()) > 2]


def _top_level(tree: ast.AST) -> Iterable[str]:
    """The names that code assigns outside of functions; an import names what it was before."""
    skipped = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, skipped):
            yield from [child.name] if not isinstance(child, ast.Lambda) else []
            continue
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store | ast.Del):
            yield child.id
        if not isinstance(child, ast.comprehension):
            yield from _top_level(child)


class _Reader(ast.NodeVisitor):
    """Collects what is touched, and the words that show it."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.touches: dict[str, str] = {}
        self.loaded: dict[str, None] = {}
        self.paths: dict[str, None] = {}
        self._by_name = False

    def add(self, kinds: Iterable[str], node: ast.AST, words: str = "") -> None:
        """Note kinds of things that are touched, the first time with the words that show it."""
        for kind in kinds:
            self.touches.setdefault(kind, words or ast.unparse(node))

    def visit_Import(self, node: ast.Import) -> None:
        """Judge each imported module."""
        for each in node.names:
            self._library(each.name, node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Judge each imported name; with a star or dots nothing is known."""
        for each in node.names:
            if each.name == "*" or node.level or node.module is None:
                self.add([UNREADABLE], node)
            else:
                self._library(f"{node.module}.{each.name}", node)

    def visit_Name(self, node: ast.Name) -> None:
        """Judge what a name stands for."""
        if isinstance(node.ctx, ast.Load):
            self.loaded[node.id] = None
            if _HIDDEN_NAME.fullmatch(node.id) and node.id not in _DUNDERS:
                self.add([UNREADABLE], node)
            for origin in self.names.of(node):
                self._origin(origin, node)
            if FILE in self.names.of(node) and node.id not in self.names.stored:
                self.add([READS, WRITES], node)
        elif _HIDDEN_NAME.fullmatch(node.id):
            self.add([UNREADABLE], node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Judge an attribute by its name, and by what it is of."""
        bases = self.names.of(node.value)
        self._attribute(node.attr, bases, node)
        if not isinstance(node.ctx, ast.Load):
            changed = [base for base in bases if is_library(base)]
            if changed and not f"{changed[0]}.".startswith(_OPTIONS):
                self.add([UNREADABLE], node, f"changes {changed[0]}.{node.attr}")
        for origin in self.names.of(node):
            if is_library(origin):
                self._library(origin, node)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Text can name what code reaches by it."""
        if isinstance(node.value, str):
            if _HIDDEN_NAME.search(node.value) and node.value not in _DUNDERS | {"__main__"}:
                self.add([UNREADABLE], node)
            if texts.SETTINGS.search(node.value):
                self.add([UNREADABLE], node)
            if self._by_name:
                self.add(kinds_of(node.value), node)

    def visit_Call(self, node: ast.Call) -> None:
        """Judge a call by its function and by what it is given."""
        for origin in self.names.of(node.func):
            if origin in {"builtins.open", "io.open"}:
                self._open(node, 1)
            elif origin == f"{PATH}.open":
                self._open(node, 0)
            elif origin in {"builtins.getattr", "builtins.hasattr"}:
                self._getattr(node)
            elif is_library(origin):
                self._texts(origin, node)
        self._callee(node)
        name = name_of(node.func)
        if takes_code(node):
            self.add([UNREADABLE], node)
        if name in tables.CALLS and isinstance(node.func, ast.Attribute):
            self._expression(node)
        if name in tables.FUNCTIONS_BY_NAME:
            self._dispatch(node)
        if reads_input(name):
            self._input(node)
        plain = isinstance(node.func, ast.Name)
        if plain and name in {"getattr", "hasattr", "open"}:
            self._visit_all(node)  # judged above, by what they are given
            return
        given = node.args or any(k.arg in {None, *_OUTPUTS} for k in node.keywords)
        if name in tables.TO_TEXT and not given:
            self.visit(node.func.value) if isinstance(node.func, ast.Attribute) else None
            self._visit_all(node)
            return
        self.generic_visit(node)

    def _visit_all(self, node: ast.Call) -> None:
        for each in (*node.args, *(k.value for k in node.keywords)):
            self.visit(each)

    def _origin(self, origin: str, node: ast.AST) -> None:
        if origin in {OPAQUE, UNKNOWN}:
            words = "is not read here" if origin == OPAQUE else "is not known"
            self.add([UNREADABLE], node, f"{ast.unparse(node)} {words}")
        elif is_library(origin):
            self._library(origin, node)

    def _library(self, name: str, node: ast.AST) -> None:
        """Judge something of a library by its full name."""
        parts = name.split(".")
        prefixes = [".".join(parts[: n + 1]) for n in range(len(parts))]
        for prefix in prefixes:
            self.add(tables.NAMES.get(prefix, ()), node)
        root, last = parts[0], parts[-1]
        if root == "builtins":
            return self._builtin(last, node)
        if name in tables.HARMLESS or name in _FEW_NAMED or name.startswith("urllib.parse"):
            return None
        if root in tables.MODULES:
            return self.add([tables.MODULES[root]], node)
        if root in _FEW_NAMED:
            if not any(prefix in tables.NAMES for prefix in prefixes):
                self.add([READS if name.startswith("os.path.") else UNREADABLE], node)
            return None
        if root not in tables.PLAIN and root != "pathlib":
            return self.add([UNREADABLE], node, f"{root} is not a library that is known here")
        inner = parts[1:]
        if name.startswith("pandas.io.") or any(leads_on(part) for part in inner):
            self.add([UNREADABLE], node)
        elif inner:
            self.add(kinds_of(last), node)
        return None

    def _builtin(self, name: str, node: ast.AST) -> None:
        if name in tables.BUILTINS[UNREADABLE] or name in {"getattr", "hasattr"}:
            self.add([UNREADABLE], node, name)
        elif name == "open":
            self.add([READS, WRITES], node)

    def _attribute(self, attr: str, bases: Iterable[str], node: ast.AST) -> None:
        hidden = attr.startswith("_") and attr not in _DUNDERS | _UNDERSCORED
        own = isinstance(getattr(node, "value", None), ast.Name) and node.value.id == "self"  # type: ignore[attr-defined]
        if hidden and not (own and not _HIDDEN_NAME.fullmatch(attr)):
            self.add([UNREADABLE], node)
        of_path = PATH in bases
        if of_path and attr in tables.PATH_WRITES:
            self.add([WRITES], node)
        elif of_path and attr in tables.PATH_READS - {"open"}:
            self.add([READS], node)
        if not all(map(is_library, bases)):
            self.add(kinds_of(attr), node)

    def _callee(self, node: ast.Call) -> None:
        """A function that comes out of a container may be any."""
        func = node.func
        if isinstance(func, ast.Name):
            if self.names.of(func) & {DATA, PARAMETER}:
                self.add([UNREADABLE], node, f"calls {func.id}, which is not read here")
        elif not isinstance(func, ast.Attribute | ast.Lambda):
            inner = self.names.of(func)
            if inner & {DATA, OPAQUE, UNKNOWN} or not isinstance(func, ast.Call):
                self.add([UNREADABLE], node, f"calls {ast.unparse(func)}")

    def _open(self, node: ast.Call, at: int) -> None:
        """A file is read or written by the mode in which it is opened."""
        given = node.args[at : at + 1] or keyword(node, "mode")
        mode = given[0] if given else ast.Constant(value="r")
        text = mode.value if isinstance(mode, ast.Constant) else "r+"
        writes = not isinstance(text, str) or not set("wax+").isdisjoint(text)
        self.add([WRITES] if writes else [], node)
        if not writes or "+" in str(text):
            self.add([READS], node)
            if at == 1 and node.args:
                self._note_path(node.args[0])

    def _getattr(self, node: ast.Call) -> None:
        match node.args:
            case [value, ast.Constant(value=str(name)), *_]:
                self.visit_Attribute(ast.Attribute(value=value, attr=name, ctx=ast.Load()))
            case _:
                self.add([UNREADABLE], node)

    def _expression(self, node: ast.Call) -> None:
        """`df.query(…)` and `df.eval(…)` run a text; `model.eval()` does not."""
        given = [*node.args[:1], *keyword(node, "expr")]
        for each in given:
            text = each.value if isinstance(each, ast.Constant) else None
            if not isinstance(text, str) or not texts.safe_expression(text):
                self.add([UNREADABLE], node)
            for name in texts.variables_of(text) if isinstance(text, str) else ():
                self.visit(ast.Name(id=name, ctx=ast.Load()))

    def _texts(self, function: str, node: ast.Call) -> None:
        """A text that a library runs, shows or fetches."""
        given = [*node.args, *(k.value for k in node.keywords)]
        if texts.is_formula(function) and not all(map(texts.safe_formula, given[:1])):
            self.add([UNREADABLE], node)
        if function in texts.MARKUP and not all(map(texts.safe_markup, node.args[:1])):
            self.add([UNREADABLE], node)
        if function.startswith("IPython.display."):
            self.add([NETWORK] if keyword(node, "url") else [], node)
            self.add([READS] if keyword(node, "filename") else [], node)
        for each in given:
            if any(texts.fetches(function, text) for text in self.names.texts(each)):
                self.add([NETWORK], node)

    def _dispatch(self, node: ast.Call) -> None:
        """`df.agg("to_csv")` calls a method by its name."""
        self._by_name = True
        for each in (*node.args[:1], *keyword(node, "func")):
            unread = isinstance(each, ast.BinOp | ast.JoinedStr | ast.Call | ast.Subscript)
            if unread and name_of(node.func) not in {"map", "pipe"} and not self._known(each):
                self.add([UNREADABLE], node)
            for part in ast.walk(each):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    self.add(kinds_of(part.value), node)

    def _known(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and not (self.names.of(node) & {DATA, OPAQUE, UNKNOWN})

    def _input(self, node: ast.Call) -> None:
        """What reads a file reads an address as well, if that is what it is given."""
        if name_of(node.func).startswith("fetch_"):
            self.add([NETWORK], node)
            return
        pickled = keyword(node, "allow_pickle")
        if any(not isinstance(p, ast.Constant) or p.value for p in pickled):
            self.add([UNREADABLE], node)
        given = [*node.args[:1], *keyword(node, *_INPUTS)][:1]
        for each in given:
            for text in self.names.texts(each):
                self._source(text, node)

    def _source(self, text: ast.expr, node: ast.Call) -> None:
        origins = self.names.of(text)
        if origins & {BUFFER, FILE}:
            return
        first = text.values[0] if isinstance(text, ast.JoinedStr) and text.values else text
        value = first.value if isinstance(first, ast.Constant) else None
        if isinstance(value, str):
            remote = any(
                isinstance(part, ast.Constant) and "://" in str(part.value)
                for part in ast.walk(text)
            )
            self.add([NETWORK if remote else READS], node)
            self._note_path(text)
        elif PATH in origins:
            self.add([READS], node)
        else:
            self.add([READS, NETWORK], node, f"{name_of(node.func)} of what is computed")

    def _note_path(self, node: ast.expr) -> None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            self.paths[node.value] = None
