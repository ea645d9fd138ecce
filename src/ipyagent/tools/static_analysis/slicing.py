"""A backward slice of code: the statements that lead to what is wanted of it.

    pieces ─▶ statements: names that each reads, binds, changes inside ─▶ from the last one back:
              does it bind or change anything that what is kept after it reads?

It errs on the side of keeping. A call of a function that is not known may change all that it is
given, and names that may stand for the same object are changed together.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import ModuleType

from ipyagent.plaintext import word_set
from ipyagent.rehearsal.watched_values import is_own_module
from ipyagent.syntax import try_parse
from ipyagent.tools.static_analysis import READS, called_name
from ipyagent.tools.static_analysis.code import find_touches
from ipyagent.tools.static_analysis.name_origins import NameOrigins, is_library, root_of

_MAGIC = re.compile(r"^([ \t]*)(?:[%!].*|.*\?)$", re.MULTILINE)
_SETTING = re.compile(r"\s*%(?:matplotlib|config|(?:re)?load_ext|autoreload|precision)\b.*")
"""A magic that does nothing when it runs again."""
_LONG_TEXT = re.compile(r"\"{3}|'{3}|\\\\\n")
_FAILED = "# it failed, and had begun"
_BREAK = re.compile(r"\r\n?|\n")
_WORD = re.compile(r"[^\W\d]\w*")
_FILE = re.compile(
    r"\S+\.(?:[ct]sv|txt|json|parquet|feather|xlsx?|npy|npz|pkl|db|h5|nc|gz|zip|png)"
)
"""A file, and no code: variables are often called as the file that they were read from."""
_BUILTINS = frozenset(dir(builtins))
_Import = ast.Import | ast.ImportFrom
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_Replacing = ast.Assign | ast.AnnAssign | _Definition | _Import

_FRESH = word_set(
    "abs agg aggregate all any apply applymap argsort astype between bfill clip collect "
    "combine_first concat copy corr count cov cummax cummin cumprod cumsum describe diff div dot "
    "drop drop_duplicates drop_nulls dropna duplicated eq explode ffill fill_null fillna filter "
    "first floordiv format ge group_by groupby gt head idxmax idxmin info interpolate is_in isin "
    "isna isnull join kurt lag last le lower lstrip lt map max mean median melt memory_usage "
    "merge min mod mode mul ne nlargest notna notnull nsmallest nunique pct_change pivot "
    "pivot_table pow predict predict_proba prod quantile query rank reindex rename replace "
    "resample reset_index rolling round rstrip score select select_dtypes set_axis set_index shift "
    "skew sort_index sort_values split stack std startswith endswith strftime strip sub sum "
    "summary tail title to_dict to_frame to_list tolist to_pandas to_string transform truediv "
    "unique unstack upper value_counts var where with_columns xs"
)
"""Methods of data that change nothing and return something new, if they are not `inplace`."""
_VIEWS = word_set("items keys values iterrows itertuples to_numpy reshape ravel squeeze")
"""Methods that change nothing, either."""
_PURE_LIBRARIES = word_set(
    "builtins math cmath statistics datetime calendar zoneinfo re json string textwrap decimal "
    "fractions itertools collections functools numpy pandas polars scipy pathlib"
)
_ITERATORS = re.compile(
    r"builtins\.(iter|map|filter|zip|enumerate|reversed|open)$|(itertools|csv|io)\."
)
"""Functions that return what can be gone through once."""
_CONTAINERS = ast.Constant | ast.List | ast.Tuple | ast.Set | ast.Dict | ast.ListComp | ast.SetComp
_CONTAINERS |= ast.DictComp | ast.JoinedStr | ast.BinOp | ast.UnaryOp | ast.Compare
_STATEFUL = word_set(
    "random seed shuffle put place copyto fill_diagonal set_option reset_option seterr Config at "
    "set_printoptions option_context next setattr delattr exec eval input dump putmask "
    "put_along_axis"
)


@dataclass(frozen=True)
class Code:
    """Code that ran. `puts_out`: its output is wanted.

    `only_looked`: it changed nothing that had been there before. `is_whole`: it is kept as a whole
    or not at all.
    """

    text: str
    puts_out: bool = False
    only_looked: bool = False
    is_whole: bool = False


@dataclass(frozen=True)
class Slice:
    """The kept part of a piece of code, without its imports. `has_output`: all that puts out."""

    imports: tuple[str, ...]
    text: str
    has_output: bool


@dataclass
class _Statement:
    """One statement, or several that share lines; without nodes it is no plain Python.

    `replaces` are the names that it binds to something that does not depend on what they were.
    """

    text: str
    nodes: list[ast.stmt] = field(default_factory=list)
    reads: set[str] = field(default_factory=set)
    binds: set[str] = field(default_factory=set)
    changes: set[str] = field(default_factory=set)
    replaces: set[str] = field(default_factory=set)
    is_needed: bool = False
    puts_out: bool = False
    acts: bool = False
    """It may do something outside of the variables."""
    stays: bool = False
    """An import whose place matters."""

    def __post_init__(self) -> None:
        for node in self.nodes:
            inside = [*ast.walk(node)]
            updates = any(isinstance(n, ast.AugAssign | ast.Delete) for n in inside)
            loads = {n.id for n in inside if isinstance(n, ast.Name) and type(n.ctx) is ast.Load}
            # Texts may name variables: df.query("x > @limit"), duckdb.sql("FROM df").
            constants = (str(n.value) for n in inside if isinstance(n, ast.Constant))
            texts = (text for text in constants if not _FILE.fullmatch(text))
            # Functions may bind global names when they are called.
            bound = (n.names for n in inside if isinstance(n, ast.Global))
            named = (_names_in(node) if updates else (), *map(_WORD.findall, texts), *bound)
            self.reads |= loads.union(*named)
            self.binds |= set(_list_bound(node))
        if len(self.nodes) == 1 and isinstance(self.nodes[0], _Replacing):
            self.replaces = self.binds - self.reads
        if not self.nodes or (_MAGIC.search(self.text) and not _SETTING.fullmatch(self.text)):
            self.reads = {*_WORD.findall(self.text)}
            self.binds, self.changes = {*self.reads}, {*self.reads}

    @property
    def imports(self) -> list[ast.stmt]:
        """Its nodes, if all of them import and may come first."""
        moves = not self.stays and all(isinstance(each, _Import) for each in self.nodes)
        return self.nodes if moves else []


def slice_code(
    pieces: Sequence[Code], wanted: Collection[str], variables: Mapping[str, object]
) -> list[Slice]:
    """Return the part of each piece that leads to the wanted names and outputs, in order.

    `variables` are those that are known: they tell what names stand for.
    """
    parsed = [_split(each.text) for each in pieces]
    reader = _Reader(pieces, parsed, variables)
    live = {*wanted} - reader.imported

    def leads_on(each: _Statement) -> bool:
        may_be_shared = each.changes & reader.shared and live & reader.shared
        return bool(each.is_needed or (each.binds | each.changes) & live or may_be_shared)

    for piece, statements in zip(reversed(pieces), reversed(parsed), strict=True):
        others = [each for each in statements if not _SETTING.fullmatch(each.text)]
        keeps_all = piece.is_whole and any(map(leads_on, others))
        for each in reversed(statements):
            if (keeps_all and not each.imports) or leads_on(each):
                each.is_needed = True
                live = (live - each.replaces) | reader.with_functions(each.reads)
    _drop_repeated(pieces, parsed, reader.shared)
    return [_join(statements) for statements in parsed]


def _drop_repeated(
    pieces: Sequence[Code], parsed: Sequence[Sequence[_Statement]], shared: set[str]
) -> None:
    """Leave out a whole piece that ran before, if all that it names is as it left it."""
    left = dict[str, set[str]]()
    for piece, statements in zip(pieces, parsed, strict=True):
        kept = [each for each in statements if each.is_needed]
        if piece.is_whole and piece.text in left:
            for each in kept:
                each.is_needed = False
            continue
        acts, changes = any(each.acts for each in kept), _join_names(e.changes for e in kept)
        own = changes | _join_names(each.binds for each in kept)
        touched = own | shared if changes & shared else own
        left = {text: names for text, names in left.items() if not acts and not names & touched}
        if piece.is_whole and not acts and own <= _join_names(each.replaces for each in kept):
            left[piece.text] = touched | _join_names(each.reads for each in kept)


def _join_names(names: Iterable[set[str]]) -> set[str]:
    return set[str]().union(*names)


def keep_completed(code: str, line: int) -> str:
    """Return the part of code that ran before a line of it failed, and what failed, as a `try`."""
    kept = list[str]()
    for each in _split(code):
        if not each.nodes or each.nodes[0].lineno > line:
            break
        text = each.text
        if (each.nodes[-1].end_lineno or line) >= line:
            whole = ast.unparse(ast.Module(each.nodes, [])) if _LONG_TEXT.search(text) else text
            text = f"try:  {_FAILED}\n{textwrap.indent(whole, '    ')}\nexcept Exception:\n    pass"
        kept.append(text)
    return "\n".join(kept)


def _join(statements: Iterable[_Statement]) -> Slice:
    kept = [each for each in statements if each.is_needed]
    imports = tuple(ast.unparse(node) for each in kept for node in each.imports)
    text = "\n".join(each.text for each in kept if not each.imports).strip("\n")
    has_output = bool(text) and all(each.is_needed or not each.puts_out for each in statements)
    return Slice(imports, text, has_output)


def _split(text: str) -> list[_Statement]:
    """Return the statements of code, each with the comments before it."""
    lines, end = _BREAK.split(text), 0  # a text may hold other breaks, which Python does not count
    tree = try_parse(text) or try_parse(_MAGIC.sub(r"\1pass", text))
    if tree is None or text.lstrip().startswith("%%"):
        return [_Statement(text.strip("\n"))]
    groups = list[list[ast.stmt]]()
    for node in tree.body:
        if groups and node.lineno <= end:
            groups[-1].append(node)
        else:
            groups.append([node])
        end = node.end_lineno or node.lineno
    ends = [0, *(group[-1].end_lineno or 0 for group in groups)]
    texts = ("\n".join(lines[a:b]) for a, b in pairwise(ends))
    return [_Statement(*each) for each in zip(texts, groups, strict=True)]


class _Reader:
    """Fills in what statements change, and which are needed in any case."""

    def __init__(
        self,
        pieces: Sequence[Code],
        parsed: Sequence[Sequence[_Statement]],
        variables: Mapping[str, object],
    ) -> None:
        everything = [each for statements in parsed for each in statements]
        bound = {name for each in everything for name in each.binds}
        self._known = bound.union(*(each.reads for each in everything))
        unknown = dict.fromkeys(self._known - bound - _BUILTINS)
        tree = ast.Module([node for each in everything for node in each.nodes], [])
        self._names = NameOrigins(tree, unknown | {**variables})
        self._modules = set(filter(self._is_module, self._known))
        inside = (n for each in ast.walk(tree) if isinstance(each, ast.ClassDef) for n in each.body)
        methods = [each for each in inside if isinstance(each, ast.FunctionDef)]
        self._methods = {each.name for each in methods}
        self._properties = {each.name for each in methods if each.decorator_list}
        classes = {each.name for each in ast.walk(tree) if isinstance(each, ast.ClassDef)}
        functions = (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef))
        self._generators = {
            each.name
            for each in functions
            if any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(each))
        }
        plain = {name for each in everything if not each.imports for name in each.binds}
        self.imported = bound - plain
        self._bodies = dict[str, set[str]]()
        for each in everything:
            for node in each.nodes:
                is_lambda = isinstance(getattr(node, "value", None), ast.Lambda)
                within = [node] if isinstance(node, _Definition) else [*_walk(node)]
                own = [n.name for n in within if isinstance(n, _Definition)]
                for name in _list_bound(node) if is_lambda else own:
                    self._bodies.setdefault(name, set()).update(each.reads)
        self._users = self._bodies.keys() | self._find_users(everything, classes)
        self.shared = set[str]()
        """The names of which one may stand for the object of another, or a part of it."""
        made = set[str]()  # by looks: all that they may have changed
        imports, acted = NameOrigins(tree, {}), False
        early = set[str]()  # the libraries that are imported before anything acts
        for piece, statements in zip(pieces, parsed, strict=True):
            made |= {n for each in statements for n in each.binds if piece.only_looked}
            for each in statements:
                self._judge(piece, each)
                each.changes &= made if piece.only_looked else each.changes
                if each.imports:
                    known = [imports.origins_of(ast.Name(n, ast.Load())) for n in each.binds]
                    roots = {root_of(name) for origins in known for name in origins}
                    is_new = acted and not roots <= sys.stdlib_module_names | early
                    each.stays = is_new or any(len(origins) > 1 for origins in known)
                    early |= set() if each.stays else roots
                else:
                    acted = acted or (each.is_needed and not piece.only_looked)
        self.imported -= {n for each in everything if each.stays for n in each.binds}

    def with_functions(self, names: Iterable[str]) -> set[str]:
        """Return these names, and those that functions among them read when they are called."""
        found, waiting = set[str](), [*names]
        while waiting:
            if (name := waiting.pop()) not in found:
                found.add(name)
                waiting += self._bodies.get(name, ())
        return found

    def _find_users(self, everything: Sequence[_Statement], classes: set[str]) -> set[str]:
        """Return the names that may stand for objects whose code is the user's."""
        known = {name: self._names.variables.get(name) for name in self._known}
        for name, value in known.items():
            module = (
                value if isinstance(value, ModuleType) else sys.modules.get(type(value).__module__)
            )
            if is_own_module(module):
                classes.add(name)
        count = -1
        while count < len(classes):
            count = len(classes)
            for each in everything:
                if self.with_functions(each.reads) & classes:
                    classes |= each.binds
        return classes

    def _has_changed_nothing(self, body: Sequence[ast.stmt]) -> bool:
        """Return whether code that failed is one statement that changed nothing before it failed.

        It runs no code of the user's, and only its last call may change anything.
        """
        match body:
            case [ast.Import() | ast.ImportFrom()]:
                return True
            case [ast.Expr() | ast.Assign() | ast.AugAssign() | ast.AnnAssign() as node]:
                value = node.value or node
            case _:
                return False
        inner = [value]
        if isinstance(value, ast.Call) and not self._is_pure(value):
            given = [*value.args, *(each.value for each in value.keywords)]
            if any(self._is_iterator(each, if_unknown=False) for each in given):
                return False
            inner = [value.func, *given]
        return _names_in(node).isdisjoint(self._users) and not any(map(self._find_changes, inner))

    def _is_module(self, name: str) -> bool:
        origins = self._names.origins_of(ast.Name(name, ast.Load()))
        return any(is_library(each) and "." not in each for each in origins)

    def _judge(self, piece: Code, each: _Statement) -> None:
        """Fill in what a statement changes, and whether it is needed in any case."""
        match each.nodes:
            case [ast.Try(body=body)] if _FAILED in each.text:
                if self._has_changed_nothing(body):
                    each.binds = each.reads = set()
                    return
                each.changes |= self.with_functions(each.reads) & self._users
        is_opaque = not each.nodes or _MAGIC.search(each.text) is not None
        acts = any(isinstance(node, ast.Assert | ast.Delete | ast.Raise) for node in each.nodes)
        shared = set[str]()
        for node in each.nodes:
            each.changes |= self._find_changes(node)
            acts = acts or bool(find_touches(node, self._names).keys() - {READS})
            is_fresh = isinstance(node, ast.Assign) and self._is_fresh(node.value)
            is_apart = isinstance(node, _Definition) or (is_fresh and not each.changes)
            shared |= set() if is_apart else _names_in(node)
        if each.changes or each.binds:
            self.shared |= shared - self._modules - self.imported - self._bodies.keys()
        libraries = self._modules | self.imported
        each.acts = acts or (is_opaque and not _SETTING.fullmatch(each.text))
        acts = acts or is_opaque or bool(each.changes & libraries and not each.binds)
        shows = any(isinstance(n, ast.Expr) for node in each.nodes for n in _walk(node))
        each.puts_out = is_opaque or shows or bool(each.changes)
        is_wanted = piece.puts_out and each.puts_out
        each.is_needed = (acts and not piece.only_looked) or is_wanted
        if each.imports:  # what nobody names may still do something, or be used by other names
            each.is_needed = "experimental" in each.text or "*" in each.binds

    def _find_changes(self, node: ast.AST) -> set[str]:
        """Return the names of what a statement may change inside."""
        found = set[str]()
        for each in _walk(node):
            match each:
                case ast.Call() if not self._is_pure(each):
                    found |= self.with_functions(_names_in(each)) - _BUILTINS
                case ast.For(iter=value) | ast.comprehension(iter=value):
                    found |= self._find_advanced(value, if_unknown=True)
                case ast.Call() | ast.Compare() | ast.Starred():
                    for part in ast.iter_child_nodes(each):
                        found |= self._find_advanced(part)
                case ast.Attribute(attr=attr) if attr in self._properties:
                    found |= self.with_functions(_names_in(each.value))
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    own = [*filter(self._is_own, each.decorator_list)]
                    found |= self.with_functions(name for one in own for name in _names_in(one))
                case ast.Attribute(ctx=ctx) | ast.Subscript(ctx=ctx) if type(ctx) is not ast.Load:
                    found |= _names_in(each.value)
                case ast.AugAssign(target=ast.Name(id=name)):
                    found.add(name)
        return found

    def _find_advanced(self, value: ast.AST, *, if_unknown: bool = False) -> set[str]:
        """Return the names of iterators that are advanced where a value is gone through."""
        match value:
            case ast.Call(func=ast.Name() as func, args=args) if not self._is_own(func):
                given = (self._find_advanced(each, if_unknown=if_unknown) for each in args)
                return set().union(*given)
            case ast.Name() | ast.Attribute() | ast.Subscript() | ast.Call():
                return _names_in(value) if self._is_iterator(value, if_unknown) else set()
        return set()

    def _is_iterator(self, value: ast.expr, if_unknown: bool, seen: Collection[str] = ()) -> bool:
        """Return whether an expression may stand for what can be gone through once."""
        match value:
            case ast.Name(id=name) if name in seen:
                return False
            case ast.Name(id=name):
                bound = self._names.bound_expressions(value)
                if bound != [value]:
                    return any(self._is_iterator(each, if_unknown, {*seen, name}) for each in bound)
                known = self._names.variables.get(name)
                return if_unknown if known is None else hasattr(type(known), "__next__")
            case ast.Attribute(value=inner) | ast.Subscript(value=inner):
                return self._is_iterator(inner, if_unknown, seen)
            case ast.Call(func=func):
                origins, name = self._names.origins_of(func), called_name(func)
                in_parts = any(each.arg in ("chunksize", "iterator") for each in value.keywords)
                if in_parts or name in self._generators or any(map(_ITERATORS.match, origins)):
                    return True
                is_data = all(map(is_library, origins)) or name in _FRESH | _VIEWS
                return if_unknown and not is_data
        is_unknown = if_unknown and not isinstance(value, _CONTAINERS)
        return isinstance(value, ast.GeneratorExp) or is_unknown

    def _is_own(self, function: ast.expr) -> bool:
        return not all(map(is_library, self._names.origins_of(function)))

    def _is_pure(self, call: ast.Call) -> bool:
        """Return whether a call changes nothing that it is given."""
        given = (*call.args, *(each.value for each in call.keywords))
        calls_own = any(_names_in(each) & self._bodies.keys() for each in given)
        if calls_own or any(each.arg in ("inplace", "out", "file") for each in call.keywords):
            return False
        origins = self._names.origins_of(call.func)
        if origins and all(map(is_library, origins)):
            return all(map(_is_pure_part, origins))
        known = (_FRESH | _VIEWS) - self._methods
        return isinstance(call.func, ast.Attribute) and call.func.attr in known

    def _is_fresh(self, value: ast.expr) -> bool:
        """Return whether the value of an expression is an object that no name stands for."""
        match value:
            case ast.Constant() | ast.BinOp() | ast.Compare() | ast.UnaryOp() | ast.JoinedStr():
                return True
            case ast.Call(func=func) if self._is_pure(value):
                name = called_name(func)
                is_view = not name.islower() or name.startswith(("as", "at")) or name in _VIEWS
                return name in _FRESH or not is_view
        return False


def _is_pure_part(name: str) -> bool:
    """Return whether a function of a library, by its full name, changes nothing."""
    parts = name.split(".")
    is_class = parts[-1][:1].isupper()
    return (is_class or root_of(name) in _PURE_LIBRARIES) and _STATEFUL.isdisjoint(parts)


def _list_bound(node: ast.AST) -> Iterator[str]:
    """Yield the names that a statement binds."""
    for each in _walk(node):
        match each:
            case ast.Name(id=name, ctx=ctx) if type(ctx) is not ast.Load:
                yield name
            case ast.alias(name=name, asname=other):
                yield other or root_of(name)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield each.name


def _names_in(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and those inside, without the bodies of functions: these do not run yet."""
    yield node
    inside = iter(ast.iter_child_nodes(node))
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        inside = iter([*node.decorator_list, node.args])
    for each in inside:
        yield from _walk(each)
