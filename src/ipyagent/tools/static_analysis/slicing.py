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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from symtable import SymbolTable, symtable

from ipyagent.plaintext import word_set
from ipyagent.tools.static_analysis import READS, called_name
from ipyagent.tools.static_analysis.code import find_touches, parse_code
from ipyagent.tools.static_analysis.name_origins import NameOrigins, is_library, root_of

_MAGIC = re.compile(r"^([ \t]*)(?:[%!].*|.*\?)$", re.MULTILINE)
_WORD = re.compile(r"[^\W\d]\w*")
_BUILTINS = frozenset(dir(builtins))
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef

_FRESH = word_set(
    "abs add agg aggregate all any apply applymap argsort assign astype between bfill clip collect "
    "combine_first concat copy corr count cov cummax cummin cumprod cumsum date describe diff div "
    "dot drop drop_duplicates drop_nulls dropna dt duplicated eq eval explode ffill fill_null "
    "fillna filter first floordiv format ge group_by groupby gt head idxmax idxmin info "
    "interpolate is_in isin isna isnull isoformat join kurt lag last le len lower lstrip lt map "
    "max mean median melt memory_usage merge min mod mode mul ne nlargest notna notnull nsmallest "
    "nunique pct_change pivot pivot_table pow predict predict_proba prod quantile query rank "
    "reindex rename replace resample reset_index rolling round rstrip score select "
    "select_dtypes set_axis set_index shift skew sort sort_index sort_values split stack std "
    "startswith endswith strftime strip sub sum summary tail title to_datetime to_dict to_frame "
    "to_list tolist to_pandas to_string to_timestamp transform truediv unique unstack upper "
    "value_counts var weekday where with_columns xs"
)
"""Methods of data that change nothing and return something new, if they are not `inplace`."""
_VIEWS = word_set("T get items keys loc reshape ravel squeeze to_numpy values iterrows itertuples")
_PURE_LIBRARIES = word_set(
    "builtins math cmath statistics datetime calendar zoneinfo re json string textwrap decimal "
    "fractions itertools collections functools operator numpy pandas polars scipy pathlib"
)
_STATEFUL = word_set(
    "random seed shuffle put place copyto fill_diagonal set_option reset_option seterr Config "
    "set_printoptions option_context next setattr delattr exec eval input heapq"
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

    imports: tuple[str, ...] = ()
    text: str = ""
    has_output: bool = False


@dataclass
class _Statement:
    """One statement, or several that share lines."""

    text: str
    nodes: list[ast.stmt] = field(default_factory=list)
    reads: set[str] = field(default_factory=set)
    binds: set[str] = field(default_factory=set)
    changes: set[str] = field(default_factory=set)
    replaces: set[str] = field(default_factory=set)
    """The names that it binds to something that does not depend on what they were."""
    is_needed: bool = False
    puts_out: bool = False

    @property
    def imports(self) -> list[ast.stmt]:
        """Its nodes, if all of them import."""
        found = [each for each in self.nodes if isinstance(each, ast.Import | ast.ImportFrom)]
        return [*found] if len(found) == len(self.nodes) else []


def slice_code(
    pieces: Sequence[Code], wanted: Collection[str], variables: Mapping[str, object] | None = None
) -> list[Slice]:
    """Return the part of each piece that leads to the wanted names and outputs, in order."""
    parsed = [_split(each) for each in pieces]
    reader = _Reader(pieces, parsed, variables or {})
    live = {*wanted} - reader.imported

    def leads_on(each: _Statement) -> bool:
        return bool(each.is_needed or each.binds & live or reader.aliases(each.changes) & live)

    for piece, statements in zip(reversed(pieces), reversed(parsed), strict=True):
        keeps_all = piece.is_whole and any(map(leads_on, statements))
        for each in reversed(statements):
            if (keeps_all and not each.imports) or leads_on(each):
                each.is_needed = True
                live = (live - each.replaces) | reader.with_functions(each.reads)
    return [_join(statements) for statements in parsed]


def _join(statements: Iterable[_Statement]) -> Slice:
    imports, texts, has_output = list[str](), list[str](), True
    for each in statements:
        if not each.is_needed:
            has_output = has_output and not each.puts_out
        elif each.imports:
            imports += map(ast.unparse, each.imports)
        else:
            texts.append(each.text)
    return Slice(tuple(imports), "\n".join(texts).strip("\n"), has_output and bool(texts))


def _split(piece: Code) -> list[_Statement]:
    """Return the statements of a piece, each with the comments before it."""
    text, lines = piece.text, piece.text.splitlines()
    tree = parse_code(text) or parse_code(_MAGIC.sub(r"\1pass", text))
    if tree is None:
        return [_Statement(piece.text)]
    found, end = list[_Statement](), 0
    for node in tree.body:
        last = node.end_lineno or node.lineno
        if found and node.lineno <= end:
            found[-1].nodes.append(node)
            found[-1].text = "\n".join([found[-1].text, *lines[end:last]])
        else:
            found.append(_Statement("\n".join(lines[end:last]), [node]))
        end = max(end, last)
    return found


class _Reader:
    """Fills in what statements read, bind and change."""

    def __init__(
        self,
        pieces: Sequence[Code],
        parsed: Sequence[Sequence[_Statement]],
        variables: Mapping[str, object],
    ) -> None:
        everything = [each for statements in parsed for each in statements]
        nodes = [node for each in everything for node in each.nodes]
        for each in everything:
            _find_names(each)
        self._known = {name for each in everything for name in each.reads | each.binds}
        unknown = self._known - {name for each in everything for name in each.binds}
        self._names = NameOrigins(
            ast.Module(nodes, []), {**dict.fromkeys(unknown - _BUILTINS), **variables}
        )
        self._modules = {name for name in self._known if self._is_module(name)}
        self.imported = {name for each in everything if each.imports for name in each.binds}
        self.imported -= {name for each in everything if not each.imports for name in each.binds}
        self._groups: dict[str, set[str]] = {}
        self._bodies: dict[str, set[str]] = {}
        self._pure = set[str]()
        for each in everything:
            for node in each.nodes:
                if isinstance(node, _FUNCTIONS | ast.ClassDef):
                    self._bodies.setdefault(node.name, set()).update(each.reads)
        for node in nodes:
            if isinstance(node, _FUNCTIONS) and self._is_pure_function(node):
                self._pure.add(node.name)
        made = set[str]()  # by looks: what they may have changed
        for piece, statements in zip(pieces, parsed, strict=True):
            made |= {n for each in statements for n in each.binds if piece.only_looked}
            for each in statements:
                self._judge(piece, each)
                if piece.only_looked:
                    each.changes &= made

    def aliases(self, names: Iterable[str]) -> set[str]:
        """Return the names that may stand for the same objects as these."""
        return set().union(*(self._groups.get(name, {name}) for name in names))

    def with_functions(self, names: Iterable[str]) -> set[str]:
        """Return these names, and those that functions among them read when they are called."""
        found, waiting = set[str](), [*names]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self._bodies.get(name, ())
        return found

    def _is_module(self, name: str) -> bool:
        origins = self._names.origins_of(ast.Name(name, ast.Load()))
        return any(is_library(each) and "." not in each for each in origins)

    def _judge(self, piece: Code, each: _Statement) -> None:
        """Fill in what a statement changes, and whether it is needed in any case."""
        if not each.nodes or _MAGIC.search(each.text):
            each.reads |= {*_WORD.findall(each.text)}
            each.is_needed = not piece.only_looked or piece.puts_out
            each.puts_out = True
        if not each.nodes:
            each.changes |= each.reads
            each.binds |= each.reads
        touches = set[str]()
        for node in each.nodes:
            each.changes |= self._find_changes(node)
            each.reads |= self._find_quoted(node)
            self._join_aliases(node)
            touches |= find_touches(node, self._names).keys() - {READS}
            is_check = isinstance(node, ast.Assert | ast.Delete | ast.Raise)
            each.is_needed = each.is_needed or (is_check and not piece.only_looked)
            each.puts_out = each.puts_out or any(isinstance(n, ast.Expr) for n in _walk(node))
        each.puts_out = each.puts_out or bool(each.changes)
        sets_up = bool(each.changes & self._modules) and not each.binds
        acts = bool(touches or sets_up) and not piece.only_looked
        if each.imports:
            each.is_needed = "experimental" in each.text  # read by nobody, and it does something
        elif acts or (piece.puts_out and each.puts_out):
            each.is_needed = True

    def _find_changes(self, node: ast.AST) -> set[str]:
        """Return the names of what a statement may change inside."""
        found = set[str]()
        for each in _walk(node):
            match each:
                case ast.Call() if not self._is_pure(each):
                    found |= self.with_functions(_names_in(each)) - _BUILTINS
                case (
                    ast.Attribute(ctx=ast.Store() | ast.Del())
                    | ast.Subscript(ctx=ast.Store() | ast.Del())
                ):
                    found |= _names_in(each.value)
                case ast.AugAssign(target=ast.Name(id=name)):
                    found.add(name)
        return found

    def _find_quoted(self, node: ast.AST) -> set[str]:
        """Return the names in texts: `df.query("x > @limit")`, `duckdb.sql("FROM df")`."""
        texts = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant))
        words = (_WORD.findall(text) for text in texts if isinstance(text, str))
        return self._known.intersection(*[{w for each in words for w in each}])

    def _join_aliases(self, node: ast.AST) -> None:
        for each in _walk(node):
            match each:
                case (
                    ast.Assign(value=value)
                    | ast.AnnAssign(value=ast.expr() as value)
                    | ast.NamedExpr(value=value)
                    | ast.AugAssign(value=value)
                    | ast.For(iter=value)
                    | ast.withitem(context_expr=value)
                ) if not self._is_fresh(value):
                    own = [n for n in ast.iter_child_nodes(each) if not isinstance(n, ast.stmt)]
                    self._join_names(set().union(*map(_names_in, own)))
                case ast.Call() if not self._is_pure(each):
                    self._join_names(_names_in(each))

    def _join_names(self, names: set[str]) -> None:
        fixed = self._modules | self.imported | self._bodies.keys() | _BUILTINS
        group = self.aliases(names - fixed)
        self._groups |= dict.fromkeys(group, group)

    def _is_pure(self, call: ast.Call) -> bool:
        """Return whether a call changes nothing that it is given."""
        if any(each.arg in ("inplace", "out") for each in call.keywords):
            return False
        if isinstance(call.func, ast.Name) and call.func.id in self._pure:
            return True
        origins = self._names.origins_of(call.func)
        if origins and all(map(is_library, origins)):
            return all(_is_pure_part(each) for each in origins)
        return isinstance(call.func, ast.Attribute) and call.func.attr in _FRESH | _VIEWS

    def _is_fresh(self, value: ast.expr) -> bool:
        """Return whether the value of an expression is an object that no name stands for."""
        match value:
            case ast.Constant() | ast.BinOp() | ast.Compare() | ast.UnaryOp() | ast.JoinedStr():
                return True
            case ast.Call(func=func) if self._is_pure(value):
                name = called_name(func)
                is_own = isinstance(func, ast.Name) and name in self._bodies
                is_maker = name.islower() and not name.startswith(("as", "at")) and not is_own
                return name in _FRESH or (is_maker and name not in _VIEWS)
        return False

    def _is_pure_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        """Return whether a function changes nothing but what it has made itself."""
        made = set[str]()
        for each in node.body:
            if isinstance(each, ast.Global | ast.Nonlocal) or self._find_changes(each) - made:
                return False
            match each:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    made = made | {name} if self._is_fresh(value) else made - {name}
        return True


def _is_pure_part(name: str) -> bool:
    """Return whether a function of a library, by its full name, changes nothing."""
    parts = name.split(".")
    is_class = parts[-1][:1].isupper()
    return (is_class or root_of(name) in _PURE_LIBRARIES) and _STATEFUL.isdisjoint(parts)


def _find_names(statement: _Statement) -> None:
    """Fill in the names that a statement reads and binds."""
    for node in statement.nodes:
        try:
            table = symtable(ast.unparse(node), "<code>", "exec")
        except SyntaxError:  # it awaits
            statement.reads |= _names_in(node)
            statement.binds |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            continue
        binds = {*_list_names(table, table, "is_assigned", "is_imported")}
        reads = {*_list_names(table, table, "is_referenced")}
        for each in ast.walk(node):
            if isinstance(each, ast.AugAssign | ast.Delete):
                reads |= {n.id for n in ast.walk(each) if isinstance(n, ast.Name)}
        statement.reads |= reads - (statement.replaces if len(statement.nodes) > 1 else set())
        is_plain = isinstance(node, ast.Assign | ast.AnnAssign | _FUNCTIONS | ast.ClassDef)
        if is_plain or isinstance(node, ast.Import | ast.ImportFrom):
            statement.replaces |= binds - statement.reads
        statement.binds |= binds


def _list_names(top: SymbolTable, table: SymbolTable, *tests: str) -> Iterator[str]:
    """Yield the names of the module that fit one of the tests, in functions too."""
    for each in table.get_symbols():
        if (table is top or each.is_global()) and any(getattr(each, test)() for test in tests):
            yield each.get_name()
    for child in table.get_children():
        yield from _list_names(top, child, *tests)


def _names_in(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and those inside, without the bodies of functions: these do not run yet."""
    yield node
    inside = ast.iter_child_nodes(node)
    if isinstance(node, _FUNCTIONS):
        inside = iter([*node.decorator_list, node.args])
    for each in inside:
        yield from _walk(each)


def keep_completed(code: str, names: Collection[str]) -> str:
    """Return the beginning of code that failed, up to where it last bound one of these names."""
    end = 0
    for each in _split(Code(code)):
        _find_names(each)
        if each.nodes and each.binds & {*names}:
            end = each.nodes[-1].end_lineno or 0
    return "\n".join(code.splitlines()[:end])
