"""Texts that libraries run or fetch: expressions, formulas, markup and addresses."""

from __future__ import annotations

import ast
import re

from ipyagent.phrases import word_set

_CALL = re.compile(r"([\w.]*)\s*\(")
_INDIRECT = re.compile(r"[\])'\"`]\s*\(|\blambda\b|\bfor\b")
_VARIABLE = re.compile(r"@\s*(\w+)")
_MATH = word_set(
    "sin cos tan exp log log1p log10 expm1 sqrt sinh cosh tanh "
    "arcsin arccos arctan arccosh arcsinh "
    "arctanh abs floor ceil arctan2"
)
_METHODS = word_set(
    "isin isna isnull notna notnull between contains startswith endswith match fullmatch lower "
    "upper strip len abs round mean median min max sum std quantile shift diff rank cumsum clip "
    "fillna astype duplicated date normalize year month"
)
_OPERATORS = frozenset({"", "and", "or", "not", "in"})
_CODINGS = word_set(
    "C Q I bs cr cc te center standardize scale Treatment Sum Poly Helmert Diff "
    "np.log np.log10 np.log1p np.log2 np.exp np.sqrt np.abs np.power np.square"
)
_FORMULAS = ("statsmodels.formula", "patsy.")
_SCRIPT = re.compile(
    r"<\s*(?:script|iframe|object|embed|link|base|meta)|javascript:|\bon\w+\s*=", re.I
)
MARKUP = frozenset({"IPython.display.HTML", "ipywidgets.HTML", "ipywidgets.widgets.HTML"})
"""Functions that display markup."""
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_ABOUT_TEXT = ("builtins.", "re.", "json.", "textwrap.", "urllib.parse", "string.", "difflib.")
_HOLDERS = frozenset({"Series", "DataFrame", "Index", "array", "Categorical", "HTML", "Markdown"})
SETTINGS = re.compile(
    r"module://|^(?:plotting|compute)\.|^(?:text\.usetex|savefig\.directory|.*\.preamble|.*_path)$"
)
"""Settings that import a module or start a program, and values that do."""


def starts_latex(call: ast.Call) -> bool:
    """Return whether a call has a text drawn by LaTeX, which runs at the end of the cell."""
    given = [each.value for each in call.keywords if each.arg == "usetex"]
    return any(not isinstance(each, ast.Constant) or each.value for each in given)


def is_safe_expression(text: str) -> bool:
    """Return whether the text of `df.query` or `df.eval` only compares and computes."""
    if "__" in text or "._" in text or _INDIRECT.search(text):
        return False
    return all(map(_computes, _CALL.findall(text)))


def referenced_variables(text: str) -> list[str]:
    """Return the variables that the text of `df.query` or `df.eval` names."""
    return _VARIABLE.findall(text)


def _computes(name: str) -> bool:
    head, dot, last = name.rpartition(".")
    if name.lower() in _OPERATORS or (not dot and name in _MATH):
        return True
    return bool(dot) and bool(head or last) and last in _METHODS


def is_formula(function: str) -> bool:
    """Return whether a library's function takes a formula, whose calls run as code."""
    return function.startswith(_FORMULAS)


def is_safe_formula(node: ast.expr) -> bool:
    """Return whether a formula calls only codings and plain functions."""
    text = node.value if isinstance(node, ast.Constant) else None
    if not isinstance(text, str) or _INDIRECT.search(text):
        return False
    return all(name in _CODINGS or not name for name in _CALL.findall(text))


def is_safe_markup(node: ast.expr) -> bool:
    """Return whether HTML that is displayed cannot hold a script, as far as can be read."""
    match node:
        case ast.Constant(value=value):
            return not (isinstance(value, str) and _SCRIPT.search(value))
        case ast.Call(func=ast.Attribute(attr="to_html")):
            return True
    return False


def fetches_address(function: str, node: ast.expr) -> bool:
    """Return whether a library's function is given an address, and not to work on its text."""
    if function.startswith(_ABOUT_TEXT) or function.rpartition(".")[2] in _HOLDERS:
        return False
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and bool(_ADDRESS.match(node.value))
    )
