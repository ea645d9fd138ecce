"""A question's frame: conditions, groups, order, rounding and methods set apart, and a core.

Patterns over tags are regular expressions whose words are tags, such as `"STAT+ OF? COL"`. In code
for conditions, text from a prompt or from data is only a literal. Code leaves the user's names
alone: imports give way to other names.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ipyagent.explorer.text import fresh
from ipyagent.explorer.workspace import Table, Workspace


@dataclass(frozen=True)
class Token:
    """A piece of a prompt. `text` is the original spelling; UNKNOWN: nothing accounts for it."""

    tag: str
    value: Any
    text: str


Tokens = list[Token]


@dataclass(frozen=True)
class Condition:
    """A test on one column, such as `species == "Adelie"`, or on a part of its dates.

    The sign may be `in` or `not in` a list of values, and `null` or `known` without a value.
    """

    column: str
    sign: str
    value: Any = None
    part: str = ""

    def __str__(self) -> str:
        left = f"{self.part} of {self.column}" if self.part else self.column
        if self.sign in ("null", "known"):
            return f"{left} is {'missing' if self.sign == 'null' else 'known'}"
        if self.sign in ("in", "not in"):
            return f"{left} {self.sign} {', '.join(map(str, self.value))}"
        return f"{left} {'=' if self.sign == '==' else self.sign} {self.value}"


Where = tuple[Condition, ...]


@dataclass
class Frame:
    """The parts of a question; `core` is what an intent has to match whole.

    `target` is the condition that a share is about, `named` are the tables and files.
    """

    core: Tokens = field(default_factory=list)
    where: list[Condition] = field(default_factory=list)
    target: Condition | None = None
    by: list[str] = field(default_factory=list)
    period: str = ""
    colour: list[str] = field(default_factory=list)
    digits: int | None = None
    options: dict[str, Any] = field(default_factory=dict)
    order: tuple[str, str] | None = None  # a column, and the end that comes first
    named: Tokens = field(default_factory=list)
    entity: Token | None = None
    pronoun: bool = False
    path: str = ""  # of the file to save to
    follows: bool = False  # another question, whose rows it may mean
    asks: bool = False  # begins with `is`: a question for yes or no

    @property
    def tags(self) -> str:
        """The tags of the core, each with a space after it."""
        return spell_tags(self.core)

    @property
    def slots(self) -> set[str]:
        """The names of the slots that are filled."""
        names = ("where", "by", "period", "colour", "order", "target")
        return {name for name in names if getattr(self, name)}

    @property
    def only_modifies(self) -> bool:
        """True if it has no core: conditions, rounding or a method for another sentence."""
        return {t.tag for t in self.core} <= {"KEEP", "ROWS"} and bool(
            self.where or self.options or self.digits is not None
        )


def values_of(tokens: Sequence[Token], *tags: str) -> list[Any]:
    """Return the values of the tokens with these tags, in order."""
    return [each.value for each in tokens if each.tag in tags]


def first_of(tokens: Sequence[Token], *tags: str, default: object = None) -> Any:
    """Return the value of the first token with one of these tags."""
    return next(iter(values_of(tokens, *tags)), default)


def has(tokens: Sequence[Token], *tags: str) -> bool:
    """Return whether there is a token with one of these tags."""
    return any(each.tag in tags for each in tokens)


def spell_tags(tokens: Sequence[Token]) -> str:
    """Return the tags of tokens, each with a space after it."""
    return "".join(f"{each.tag} " for each in tokens)


@cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return the pattern with each tag spelled with the space that ends it."""
    spelled = re.sub(r"[A-Z][A-Z0-9]*", r"(?:\g<0>~)", pattern)
    return re.compile(f"(?<![A-Z0-9])(?:{''.join(spelled.split()).replace('~', ' ')})")


def find_pattern(pattern: str, tokens: Sequence[Token]) -> tuple[int, int] | None:
    """Return where tokens match the pattern first; None if they do nowhere."""
    tags = spell_tags(tokens)
    for found in compile_pattern(pattern).finditer(tags):
        if found[0]:
            start = tags[: found.start()].count(" ")
            return start, start + found[0].count(" ")
    return None


_MODULES = {"plt": "matplotlib.pyplot", "pd": "pandas", "pl": "polars", "stats": "scipy.stats"}


def literal(value: object) -> str:
    """Return a Python literal; plain text gets double quotes, as from a formatter."""
    if isinstance(value, str) and value.isprintable() and not set(value) & {'"', "\\"}:
        return f'"{value}"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    return repr(value)


def mask(table: Table, where: Where) -> str:
    """Return the test that rows meet all conditions."""
    tests = [_test(table, each) for each in where]
    return " & ".join(f"({test})" for test in tests) if len(tests) > 1 else tests[0]


def _test(table: Table, condition: Condition) -> str:
    column = f"{table.name}[{literal(condition.column)}]"
    if condition.part:
        column = f"{dates(table, column, condition.column)}.dt.{condition.part}"
    if condition.sign in ("null", "known"):
        return f"{column}.{'isna' if condition.sign == 'null' else 'notna'}()"
    if condition.sign in ("in", "not in"):
        return f"{'~' * (condition.sign == 'not in')}{column}.isin({literal(condition.value)})"
    if isinstance(condition.value, bool) and condition.sign in ("==", "!="):
        return column if condition.value == (condition.sign == "==") else f"~{column}"
    return f"{column} {condition.sign} {literal(condition.value)}"


def dates(table: Table, values: str, column: str) -> str:
    """Return code for the dates in a column, converted from text if necessary."""
    return values if table.kind(column) == "date" else f"pd.to_datetime({values})"


def touches(code: str, name: str, columns: Collection[str]) -> bool:
    """Return whether code changes a table, or what it prints may depend on these columns."""
    tree = ast.parse(code)
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    return any(
        (isinstance(node, ast.Constant) and node.value in columns)
        or (isinstance(node, ast.Name) and node.id == name and not _narrows(node, above))
        for node in ast.walk(tree)
    )


def _narrows(rows: ast.AST, above: dict[ast.AST, ast.AST]) -> bool:
    """Return whether only the number of rows, or named columns of them, are used."""
    match user := above[rows]:
        case ast.Call(func=ast.Name("len")):
            return True
        case ast.Subscript(slice=ast.Constant() | ast.List(), ctx=ast.Load()) if user.value is rows:
            return True
        case ast.Subscript(value=value, ctx=ast.Load()) if value is rows:
            return _narrows(user, above)
        case ast.Attribute(attr="shape" | "size"):
            return True
    match user, above[user]:
        case ast.Attribute(attr="loc"), ast.Subscript(slice=ast.Tuple()):
            return True
        case ast.Attribute(attr="value_counts"), ast.Call(args=[_, *_]):
            return True
        case (ast.Attribute(attr="groupby"), ast.Call(args=[_, *_]) as call) | (
            ast.Attribute(attr="dropna"),
            ast.Call(keywords=[_, *_]) as call,
        ):
            return _narrows(call, above)
    return False


def with_imports(code: str, workspace: Workspace) -> str:
    """Return code after its imports, which take other names where the user has theirs.

    Functions of Python whose names are the user's, such as `list`, are called by their full names.
    """
    nodes = [*ast.walk(ast.parse(code))]
    names = [node for node in nodes if isinstance(node, ast.Name)]
    used = {ast.unparse(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    bound = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    hidden = {n.id for n in names if hasattr(builtins, n.id)} & workspace.variables - bound
    taken = {*workspace.variables, *workspace.modules, *(node.id for node in names)}
    imports, renamed = list[str](), dict[str, str]()
    if hidden:
        module = fresh("builtins", taken)
        imports.append(_import("builtins", module))
        renamed |= {name: f"{module}.{name}" for name in hidden}
    for alias in (each for each in _MODULES if each in used):
        renamed[alias] = _free_alias(alias, workspace, taken)
        imports.append(_import(_MODULES[alias], renamed[alias]))
    lines = [line.encode() for line in code.splitlines()]
    for node in sorted(names, key=lambda node: node.col_offset, reverse=True):
        if node.id in renamed:
            line, start, end = lines[node.lineno - 1], node.col_offset, node.end_col_offset
            lines[node.lineno - 1] = line[:start] + renamed[node.id].encode() + line[end:]
    return "\n".join([*imports, *[""] * bool(imports), *(line.decode() for line in lines)])


def _free_alias(alias: str, workspace: Workspace, taken: Collection[str]) -> str:
    """Return the usual name of a module, or another one if the user may have that name."""
    module, known = _MODULES[alias], workspace.modules.get(alias)
    if known == module or not (known or workspace.is_cut or alias in workspace.variables):
        return alias
    short = module.rpartition(".")[2]
    wanted = module.replace(".", "_") if short == alias else short
    is_there = workspace.modules.get(wanted) == module
    return wanted if is_there else fresh(wanted, {*taken, alias})


def _import(module: str, name: str) -> str:
    """Return the line that imports a module under this name."""
    package, _, last = module.rpartition(".")
    if name == last:
        return f"from {package} import {last}" if package else f"import {module}"
    return f"import {module} as {name}"
