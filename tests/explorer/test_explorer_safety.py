"""Whatever a prompt, a name or a value says: it becomes a literal, never code."""

from __future__ import annotations

import ast
import builtins

from explorer_runner import TOOLS, offered, reply
from hypothesis import example, given, settings, strategies as st

from ipyagent.explorer.frame import literal
from ipyagent.explorer.lexer import PHRASES

NAMES = ["species", "body_mass_g", "sex", "order date", "paid", "Adelie", "male", "data/p.csv"]
TABLE = "species: str, body_mass_g: float64, sex: str, order date: datetime64[us], paid: bool"
CALLED = {"print", "len", "list", "map", "str", "dict", "profile", "outliers", "differences"}
MODULES = {"pandas", "polars", "polars.selectors", "matplotlib.pyplot", "scipy", "json"}
ATTRIBUTES_REFUSED = {
    "system",
    "popen",
    "eval",
    "query",
    "pipe",
    "to_pickle",
    "read_pickle",
}

words = st.sampled_from(sorted({" ".join(phrase) for phrase in PHRASES} | set(NAMES)))
noise = st.text(max_size=12) | st.sampled_from(['"', "'", "\\", "\n", '"]; x(', "`", "{", "#", "é"])
prompts = st.lists(words | st.integers(0, 3000).map(str) | noise, max_size=9).map(" ".join)
templates = st.sampled_from(
    [
        "mean body mass where species is {}",
        "how many penguins where sex = {}",
        "mean of {}",
        "load {} as x",
        "load data/p.csv as {}",
        "add a column {} = body_mass_g / body_mass_g",
        "read {}",
        "histogram of {}",
        "compare body mass between {} and male",
    ]
)


def messages(prompt: str, table: str = TABLE, files: str = "data/p.csv") -> list[dict[str, object]]:
    context = (
        f"<context>\nVariables:\n- p: DataFrame, 3 rows × {table.count(': ')} columns ({table})\n"
        f"Files:\n- {files}\n</context>"
    )
    return [{"role": "user", "content": f"{prompt}\n{context}"}]


def check(code: str) -> None:
    """The code only calls methods of tables and figures, and a few harmless builtins."""
    tree = ast.parse(code)
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            named = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module]
            assert set(named) <= MODULES, code
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id in CALLED, code
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".apply"):
            assert {ast.unparse(argument) for argument in node.args} <= defined, code
        if isinstance(node, ast.Attribute):
            assert node.attr not in ATTRIBUTES_REFUSED, code
            assert not node.attr.startswith("_"), code
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            assert not hasattr(builtins, node.id), code
        assert not isinstance(node, ast.Lambda | ast.ClassDef | ast.Global), code


def follow(conversation: list[dict[str, object]]) -> None:
    """Check the first call, and the one after a look that brought hostile values."""
    said = reply(conversation, offered(*TOOLS))
    for name, arguments in said.calls:
        if name != "run_python":
            continue
        check(arguments["code"])
        call = {"id": "c", "function": {"name": name, "arguments": arguments}}
        output = 'variable,value\nspecies,Adelie\nsex,male\nsex,"""; os.system(1)"\n'
        then = [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": output},
        ]
        for _, second in reply([*conversation, *then], offered(*TOOLS)).calls:
            check(second.get("code", ""))


def test_the_check_would_find_injected_code() -> None:
    value = "x']; __import__('os').system('id') #"
    naive = f"p[p['species'] == '{value}']"
    for code in (naive, "p[0]; eval('1')", "p.query('a')", "import os", "print = 3"):
        try:
            check(code)
        except (AssertionError, SyntaxError):
            continue
        raise AssertionError(f"not found: {code}")


@settings(max_examples=40, deadline=None)
@given(prompts)
@example("outlier")
def test_no_prompt_crashes_it_or_becomes_code(prompt: str) -> None:
    follow(messages(prompt))


@settings(max_examples=40, deadline=None)
@given(templates, st.text(max_size=25), st.sampled_from(["{}", '"{}"', "'{}'", "`{}`", "“{}”"]))
def test_no_value_becomes_code(template: str, text: str, quotes: str) -> None:
    follow(messages(template.format(quotes.format(text))))


@settings(max_examples=20, deadline=None)
@given(st.text(min_size=1, max_size=20))
def test_no_name_of_a_column_or_file_becomes_code(name: str) -> None:
    table = f"species: str, {name!r}: float64, sex: str"
    for prompt in ("profile p", "mean " + name, f"mean `{name}` by species", "correlation matrix"):
        follow(messages(prompt, table=table))
    for prompt in ("load " + name, f"profile `{name}.csv`", "load f"):
        follow(messages(prompt, files=f"{name}.csv"))


@given(st.text() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans())
def test_a_literal_is_one_constant_with_the_same_value(value: object) -> None:
    assert ast.literal_eval(literal(value)) == value


def test_texts_that_are_joined_stay_literals() -> None:
    for name in ('a" "b" "c', "it's {x}", "a\\' 'b", 'x"), os.system("y'):
        table = f"species: str, {name!r}: float64, sex: str"
        quoted = name.replace("`", "")
        said = reply(messages(f"histogram of `{quoted}` by species", table=table), offered(*TOOLS))
        for _, arguments in said.calls:
            check(arguments["code"])
            texts = {
                n.value
                for n in ast.walk(ast.parse(arguments["code"]))
                if isinstance(n, ast.Constant)
            }
            assert f"Distribution of {name} by species" in texts
