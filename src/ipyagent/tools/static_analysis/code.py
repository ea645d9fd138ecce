"""Static analysis of Python code: its effects beside those on variables."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from symtable import symtable

from ipyagent.syntax import parse
from ipyagent.tools import static_analysis as effects
from ipyagent.tools.static_analysis import (
    NETWORK,
    READS,
    UNKNOWN_EFFECTS,
    WRITES,
    Effects,
    called_name,
    keyword_values,
    kinds_touched_by,
    leads_elsewhere,
    name_origins,
    reads_input,
    takes_code,
)
from ipyagent.tools.static_analysis.name_origins import (
    BUFFER,
    DATA,
    FILE,
    OPAQUE,
    PARAMETER,
    PATH,
    UNKNOWN,
    NameOrigins,
    is_library,
)

_LISTED_ONLY = frozenset({"os", "sys", "asyncio"})
"""Modules of which only the listed parts are known."""
_DUNDERS = frozenset({"__name__", "__doc__", "__version__", "__init__", "__len__"})
_UNDERSCORED = frozenset({"_asdict", "_replace", "_fields", "_repr_html_", "_"})
_HIDDEN_NAME = re.compile(r"__\w+__")
_OUTPUTS = frozenset({"path_or_buf", "buf", "path", "filename", "file"})
_INPUTS = _OUTPUTS | {"filepath_or_buffer", "io", "source", "fname"}
_OPTIONS = ("pandas.options.display.", "pandas.options.mode.")
_MAX_CODE_CHARS = 200_000


def analyze_code(code: str, variables: Mapping[str, object], subject: str = "code") -> Effects:
    """Return the effects of code that runs among these variables."""
    try:
        if len(code) > _MAX_CODE_CHARS:
            return Effects({UNKNOWN_EFFECTS: "it is too long"}, subject=subject)
        tree = parse(code)
        reader = _CodeVisitor(NameOrigins(tree, variables))
        reader.visit(tree)
        redefines = [name for name in _assigned_names(code) if name in variables]
    except SyntaxError:
        why = "a % or ! line" if re.search(r"^\s*[%!]", code, re.MULTILINE) else "not plain Python"
        return Effects({UNKNOWN_EFFECTS: why}, subject=subject)
    except (ValueError, RecursionError, MemoryError):
        return Effects({UNKNOWN_EFFECTS: "not plain Python"}, subject=subject)
    return Effects(
        reader.touches,
        tuple(name for name in reader.loaded if name in variables),
        tuple(reader.paths),
        tuple(redefines),
        subject,
    )


def find_touches(node: ast.AST, names: NameOrigins) -> Mapping[str, str]:
    """Return the kinds of things that a part of code touches, with the words that show it."""
    reader = _CodeVisitor(names)
    reader.visit(node)
    return reader.touches


def _assigned_names(code: str) -> Iterable[str]:
    """Return the names that code assigns outside of functions; an import counts by its origin."""
    symbols = symtable(code, "<code>", "exec").get_symbols()
    return [each.get_name() for each in symbols if each.is_assigned() and not each.is_imported()]


class _CodeVisitor(ast.NodeVisitor):
    """Collects what code touches, and the words that show it."""

    def __init__(self, names: NameOrigins) -> None:
        self.names = names
        self.touches: dict[str, str] = {}
        self.loaded: dict[str, None] = {}
        self.paths: dict[str, None] = {}
        self._by_name = False

    def add(self, kinds: Iterable[str], node: ast.AST, words: str = "") -> None:
        """Record kinds of things that are touched, the first time with the words that show it."""
        for kind in kinds:
            self.touches.setdefault(kind, words or ast.unparse(node))

    def visit_Import(self, node: ast.Import) -> None:
        """Judge each imported module."""
        for each in node.names:
            self._judge_library(each.name, node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Judge each imported name; a star or dots make it unknown."""
        for each in node.names:
            if each.name == "*" or node.level or node.module is None:
                self.add([UNKNOWN_EFFECTS], node)
            else:
                self._judge_library(f"{node.module}.{each.name}", node)

    def visit_Name(self, node: ast.Name) -> None:
        """Judge the object behind a name."""
        if isinstance(node.ctx, ast.Load):
            self.loaded[node.id] = None
            if _HIDDEN_NAME.fullmatch(node.id) and node.id not in _DUNDERS:
                self.add([UNKNOWN_EFFECTS], node)
            for origin in self.names.origins_of(node):
                self._judge_origin(origin, node)
            if FILE in self.names.origins_of(node) and node.id not in self.names.stored:
                self.add([READS, WRITES], node)
        elif _HIDDEN_NAME.fullmatch(node.id):
            self.add([UNKNOWN_EFFECTS], node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Judge an attribute by its name and its owner."""
        bases = self.names.origins_of(node.value)
        self._judge_attribute(node.attr, bases, node)
        if not isinstance(node.ctx, ast.Load):
            changed = [base for base in bases if is_library(base)]
            if changed and not f"{changed[0]}.".startswith(_OPTIONS):
                self.add([UNKNOWN_EFFECTS], node, f"changes {changed[0]}.{node.attr}")
        for origin in self.names.origins_of(node):
            if is_library(origin):
                self._judge_library(origin, node)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Judge a text: it can name what code reaches by it."""
        if isinstance(node.value, str):
            if _HIDDEN_NAME.search(node.value) and node.value not in _DUNDERS | {"__main__"}:
                self.add([UNKNOWN_EFFECTS], node)
            if name_origins.SETTINGS.search(node.value):
                self.add([UNKNOWN_EFFECTS], node)
            if self._by_name:
                self.add(kinds_touched_by(node.value), node)

    def visit_Call(self, node: ast.Call) -> None:
        """Judge a call by its function and arguments."""
        for origin in self.names.origins_of(node.func):
            if origin in {"builtins.open", "io.open"}:
                self._judge_open(node, 1)
            elif origin == f"{PATH}.open":
                self._judge_open(node, 0)
            elif origin in {"builtins.getattr", "builtins.hasattr"}:
                self._judge_getattr(node)
            elif is_library(origin):
                self._judge_texts(origin, node)
        self._judge_callee(node)
        name = called_name(node.func)
        if takes_code(node) or name == "set_usetex" or keyword_values(node, "usetex"):
            self.add([UNKNOWN_EFFECTS], node)
        if name in effects.CALLS and isinstance(node.func, ast.Attribute):
            self._judge_expression(node)
        if name in effects.FUNCTIONS_BY_NAME:
            self._judge_dispatch(node)
        if reads_input(name):
            self._judge_input(node)
        plain = isinstance(node.func, ast.Name)
        if plain and name in {"getattr", "hasattr", "open"}:
            self._visit_arguments(node)  # judged above, by their arguments
            return
        given = node.args or any(k.arg in {None, *_OUTPUTS} for k in node.keywords)
        if name in effects.TO_TEXT and not given:
            self.visit(node.func.value) if isinstance(node.func, ast.Attribute) else None
            self._visit_arguments(node)
            return
        self.generic_visit(node)

    def _visit_arguments(self, node: ast.Call) -> None:
        for each in (*node.args, *(k.value for k in node.keywords)):
            self.visit(each)

    def _judge_origin(self, origin: str, node: ast.AST) -> None:
        if origin in {OPAQUE, UNKNOWN}:
            words = "is not read here" if origin == OPAQUE else "is not known"
            self.add([UNKNOWN_EFFECTS], node, f"{ast.unparse(node)} {words}")
        elif is_library(origin):
            self._judge_library(origin, node)

    def _judge_library(self, name: str, node: ast.AST) -> None:
        """Judge a part of a library by its full name."""
        parts = name.split(".")
        prefixes = [".".join(parts[: n + 1]) for n in range(len(parts))]
        for prefix in prefixes:
            self.add(effects.NAMES.get(prefix, ()), node)
        root, last = parts[0], parts[-1]
        if root == "builtins":
            return self._judge_builtin(last, node)
        if name in effects.HARMLESS or name in _LISTED_ONLY or name.startswith("urllib.parse"):
            return None
        if root in effects.MODULES:
            return self.add([effects.MODULES[root]], node)
        if root in _LISTED_ONLY:
            if not any(prefix in effects.NAMES for prefix in prefixes):
                self.add([READS if name.startswith("os.path.") else UNKNOWN_EFFECTS], node)
            return None
        if root not in effects.PLAIN and root != "pathlib":
            return self.add([UNKNOWN_EFFECTS], node, f"{root} is not a library that is known here")
        inner = parts[1:]
        if name.startswith("pandas.io.") or any(leads_elsewhere(part) for part in inner):
            self.add([UNKNOWN_EFFECTS], node)
        elif inner:
            self.add([NETWORK] if last.startswith("fetch_") else kinds_touched_by(last), node)
        return None

    def _judge_builtin(self, name: str, node: ast.AST) -> None:
        if name in effects.BUILTINS[UNKNOWN_EFFECTS] or name in {"getattr", "hasattr"}:
            self.add([UNKNOWN_EFFECTS], node, name)
        elif name == "open":
            self.add([READS, WRITES], node)

    def _judge_attribute(self, attr: str, bases: Iterable[str], node: ast.AST) -> None:
        hidden = attr.startswith("_") and attr not in _DUNDERS | _UNDERSCORED
        own = isinstance(getattr(node, "value", None), ast.Name) and node.value.id == "self"  # type: ignore[attr-defined]
        if hidden and not (own and not _HIDDEN_NAME.fullmatch(attr)):
            self.add([UNKNOWN_EFFECTS], node)
        of_path = PATH in bases
        if of_path and attr in effects.PATH_WRITES:
            self.add([WRITES], node)
        elif of_path and attr in effects.PATH_READS - {"open"}:
            self.add([READS], node)
        if not all(map(is_library, bases)):
            self.add(kinds_touched_by(attr), node)

    def _judge_callee(self, node: ast.Call) -> None:
        """Judge a callee from a container, which may be any function."""
        func = node.func
        if isinstance(func, ast.Name):
            if self.names.origins_of(func) & {DATA, PARAMETER}:
                self.add([UNKNOWN_EFFECTS], node, f"calls {func.id}, which is not read here")
        elif not isinstance(func, ast.Attribute | ast.Lambda):
            inner = self.names.origins_of(func)
            if inner & {DATA, OPAQUE, UNKNOWN} or not isinstance(func, ast.Call):
                self.add([UNKNOWN_EFFECTS], node, f"calls {ast.unparse(func)}")

    def _judge_open(self, node: ast.Call, at: int) -> None:
        """Judge `open` by its mode: a file is read or written."""
        given = node.args[at : at + 1] or keyword_values(node, "mode")
        mode = given[0] if given else ast.Constant(value="r")
        text = mode.value if isinstance(mode, ast.Constant) else "r+"
        writes = not isinstance(text, str) or not set("wax+").isdisjoint(text)
        self.add([WRITES] if writes else [], node)
        if not writes or "+" in str(text):
            self.add([READS], node)
            if at == 1 and node.args:
                self._note_path(node.args[0])

    def _judge_getattr(self, node: ast.Call) -> None:
        match node.args:
            case [value, ast.Constant(value=str(name)), *_]:
                self.visit_Attribute(ast.Attribute(value=value, attr=name, ctx=ast.Load()))
            case _:
                self.add([UNKNOWN_EFFECTS], node)

    def _judge_expression(self, node: ast.Call) -> None:
        """Judge `df.query(…)` and `df.eval(…)`, which run a text; `model.eval()` does not."""
        given = [*node.args[:1], *keyword_values(node, "expr")]
        for each in given:
            text = each.value if isinstance(each, ast.Constant) else None
            if not isinstance(text, str) or not name_origins.is_safe_expression(text):
                self.add([UNKNOWN_EFFECTS], node)
            for name in name_origins.VARIABLE.findall(text) if isinstance(text, str) else ():
                self.visit(ast.Name(id=name, ctx=ast.Load()))

    def _judge_texts(self, function: str, node: ast.Call) -> None:
        """Judge a text that a library runs, shows or fetches."""
        given = [*node.args, *(k.value for k in node.keywords)]
        if function.startswith("IPython.display."):
            self.add([NETWORK] if keyword_values(node, "url") else [], node)
            self.add([READS] if keyword_values(node, "filename") else [], node)
        for each in given:
            if any(
                name_origins.fetches_address(function, text)
                for text in self.names.bound_expressions(each)
            ):
                self.add([NETWORK], node)

    def _judge_dispatch(self, node: ast.Call) -> None:
        """Judge `df.agg("to_csv")`, which calls a method by its name."""
        self._by_name = True
        for each in (*node.args[:1], *keyword_values(node, "func")):
            is_computed = isinstance(each, ast.BinOp | ast.JoinedStr | ast.Call | ast.Subscript)
            if is_computed and not self._is_known_call(each):
                self.add([UNKNOWN_EFFECTS], node)

    def _is_known_call(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and not (
            self.names.origins_of(node) & {DATA, OPAQUE, UNKNOWN}
        )

    def _judge_input(self, node: ast.Call) -> None:
        """Judge a reader: given an address, it reads that."""
        if called_name(node.func).startswith("fetch_"):
            self.add([NETWORK], node)
            return
        if keyword_values(node, "allow_pickle"):
            self.add([UNKNOWN_EFFECTS], node)
        given = [*node.args[:1], *keyword_values(node, *_INPUTS)][:1]
        for each in given:
            for text in self.names.bound_expressions(each):
                self._judge_source(text, node)

    def _judge_source(self, text: ast.expr, node: ast.Call) -> None:
        origins = self.names.origins_of(text)
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
            self.add([READS, NETWORK], node, f"{called_name(node.func)} of what is computed")

    def _note_path(self, node: ast.expr) -> None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            self.paths[node.value] = None
