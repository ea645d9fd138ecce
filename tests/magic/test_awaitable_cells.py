"""An `%%agent` cell becomes an awaited call that gets what IPython would give to its magic."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator

import pytest
from IPython.core.inputtransformer2 import TransformerManager
from IPython.core.interactiveshell import InteractiveShell

from ipyagent import magic

AGENT_CELLS = {
    "a prompt": "%%agent\nSay hello.",
    "options": "%%agent -m scripted/a.yaml --confirm yolo\nSay hello.",
    "nothing at all": "%%agent",
    "options alone": "%%agent --resume",
    "only a line's end": "%%agent\n",
    "empty lines first": "\n  \n\n%%agent\nSay hello.\n",
    "indented": "    %%agent -a plan\n    Say hello.\n      More.",
    "prompts of a terminal": "In [3]: %%agent\n   ...: Say hello.\n   ...: More.",
    "prompts of Python": ">>> %%agent\n... Say hello.",
    "spaces": "%%agent   -a  plan   \n   Say hello.   \n\n\n",
    "a tab among the options": "%%agent -a\tplan\nSay hello.",
    "quotes": "%%agent -a \"a 'b'\"\n'''It's \"that\"''' \\' \\\" \\",
    "backslashes": "%%agent --out x\\\nC:\\new\\table \\\n\\x41",
    "line ends of Windows": "%%agent -a plan\r\nSay hello.\r\nMore.\r\n",
    "a carriage return": "%%agent -a plan\rSay hello.",
    "other line ends": "%%agent -a plan\nA\u2028B\u2029C\x85D\x0bE\x0cF\x1cG",
    "another line end after the options": "%%agent -a plan\u2028Say hello.",
    "unicode": "%%agent\nПривет, 世界 🙂 \u200f\ufeff",
    "half of a character": "%%agent\nA \ud83d half.",
    "syntax inside": "%%agent\n!ls\n%time x\nx?\n%%agent\nget_ipython().x('agent')",
    "a question": "%%agent\nWhat is x?",
    "a question in the options": "%%agent -a plan?\nSay hello.",
    "the end of a call": "%%agent\nSay hello.')\n",
    "braces": "%%agent {x}\n{{y}} $z {0}",
    "a prompt on the first line": '%%agent What\'s "x"?',
    "a prompt behind options": "%%agent -m a/b How many rows has x?\nAnd y?",
}

PROMPTS = [
    "How many rows has sales_q1.csv?",
    "What's the mean?",
    'What\'s "this"?',
    "Plot {x} and $HOME, # not y",
    "C:\\new\\table and \\x41",
    "Which (of them?",
    'Why """this?',
    "hello",
    "Show me the rows",
    "-m a/b How many rows has x?",
    "Привет, 世界 🙂?",
]

COMMANDS = ["status", "modl", "say Is it done?", "model a/b", "undo?", "show me the rows?"]

OTHER_CELLS = {
    "ordinary code": "x = 1\ny = x",
    "the line magic": "%agent status",
    "another magic": "%%time\nx = 1",
    "a magic around it": "%%time\n%%agent\nSay hello.",
    "a longer name": "%%agents\nSay hello.",
    "a tab after the name": "%%agent\t-a plan\nSay hello.",
    "its help": "%%agent?",
    "its source": "%%agent??",
    "a comment first": "# A comment.\n%%agent\nSay hello.",
    "in a string": "x = '''\n%%agent\nSay hello.\n'''",
    "a call among code": "x = 1\nget_ipython().run_cell_magic('agent', '', 'Say hello.')",
    "nothing": "",
    "empty lines": "\n\n",
}


@pytest.fixture(scope="module")
def plain() -> Iterator[InteractiveShell]:
    """A shell without the extension."""
    shell = InteractiveShell()
    yield shell
    shell.history_manager.end_session()


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    shell = InteractiveShell()
    magic.load(shell)
    yield shell
    magic.unload(shell)
    shell.history_manager.end_session()


def read_call(code: str, function: type[ast.AST]) -> tuple[str, ...]:
    """Return the strings that the one call in `code` passes, of the kind that is expected."""
    (statement,) = ast.parse(code).body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, function)
    call = statement.value.value if isinstance(statement.value, ast.Await) else statement.value
    assert isinstance(call, ast.Call)
    return tuple(ast.literal_eval(each) for each in call.args)


@pytest.mark.parametrize("cell", AGENT_CELLS.values(), ids=AGENT_CELLS)
def test_the_awaited_call_gets_what_the_magic_would_get(shell: InteractiveShell, cell: str) -> None:
    name, line, body = read_call(TransformerManager().transform_cell(cell), ast.Call)
    assert name == "agent"
    assert read_call(shell.transform_cell(cell), ast.Await) == (line, body)


@pytest.mark.parametrize("cell", OTHER_CELLS.values(), ids=OTHER_CELLS)
def test_all_other_cells_are_left_to_ipython(
    shell: InteractiveShell, plain: InteractiveShell, cell: str
) -> None:
    assert shell.transform_cell(cell) == plain.transform_cell(cell)


def test_a_terminal_sees_the_end_of_a_cell_as_without_the_extension(
    shell: InteractiveShell, plain: InteractiveShell
) -> None:
    for cell in [*AGENT_CELLS.values(), *OTHER_CELLS.values()]:
        for typed in (cell, f"{cell}\n", f"{cell}\n\n"):
            assert shell.check_complete(typed) == plain.check_complete(typed), repr(typed)


@pytest.mark.spec("H30")
def test_a_line_with_a_prompt_becomes_an_awaited_call_beside_other_code(
    shell: InteractiveShell,
) -> None:
    for prompt in PROMPTS:
        cell = f"x = 1\n%agent {prompt}\n!echo {{x}}?\nif x:\n    y = 2"
        _, awaited, _, _ = ast.parse(shell.transform_cell(cell)).body
        assert read_call(ast.unparse(awaited), ast.Await) == (prompt,), prompt
        assert read_call(shell.transform_cell(f"%agent {prompt}"), ast.Await) == (prompt,)


def test_where_it_cannot_be_awaited_the_magic_gets_the_prompt(shell: InteractiveShell) -> None:
    for prompt in PROMPTS:
        code = shell.transform_cell(f"def ask():\n    %agent {prompt}\n    return 1")
        (function,) = ast.parse(code).body
        assert isinstance(function, ast.FunctionDef)
        assert read_call(ast.unparse(function.body[0]), ast.Call) == ("agent", prompt)
        shell.autoawait = False
        assert read_call(shell.transform_cell(f"%agent {prompt}"), ast.Call) == ("agent", prompt)
        shell.autoawait = True


def test_a_command_on_a_line_stays_a_call_of_the_magic(shell: InteractiveShell) -> None:
    for command in COMMANDS:
        code = shell.transform_cell(f"%agent {command}")
        assert read_call(code, ast.Call) == ("agent", command)


def test_help_and_strings_are_left_to_ipython(
    shell: InteractiveShell, plain: InteractiveShell
) -> None:
    text = "x = '''\n%agent Why?\n'''"
    for cell in ("%agent?", "%agent??", "%agents x?", "x = 1\nx?", "!agent x?", "%%agent?", text):
        assert shell.transform_cell(cell) == plain.transform_cell(cell)


@pytest.mark.parametrize("change", ["autoawait", "loop_runner", "depth"])
def test_where_a_cell_cannot_await_ipython_calls_the_magic(
    shell: InteractiveShell, change: str
) -> None:
    if change == "autoawait":
        shell.autoawait = False
    elif change == "loop_runner":
        shell.run_line_magic("autoawait", "trio")
    else:
        shell.events.trigger("pre_run_cell", None)
    cell = "%%agent -a plan\nSay hello."
    assert read_call(shell.transform_cell(cell), ast.Call) == ("agent", "-a plan", "Say hello.\n")
    # IPython refuses a cell magic without a text.
    assert read_call(shell.transform_cell("%%agent What?"), ast.Call) == ("agent", "What?", "\n")


def test_what_ipython_would_make_of_the_cell_does_not_matter(shell: InteractiveShell) -> None:
    def quote_otherwise(lines: list[str]) -> list[str]:
        name, _, line = lines[0].strip("%\n").partition(" ")
        arguments = ", ".join(map(json.dumps, [name, line, "".join(lines[1:])]))
        return [f"get_ipython().run_cell_magic({arguments})\n"] if "%%" in lines[0] else lines

    shell.input_transformer_manager.line_transforms = [quote_otherwise]
    cell = "%%agent -a plan\nSay hello."
    assert read_call(shell.transform_cell(cell), ast.Await) == ("-a plan", "Say hello.\n")


@pytest.mark.parametrize("autocall", [1, 2])
def test_ipython_s_own_shorthands_leave_the_call_alone(
    shell: InteractiveShell, autocall: int
) -> None:
    shell.autocall = autocall
    cell = "%%agent -a plan\nSay hello, /f x ,f y ;f z."
    assert read_call(shell.transform_cell(cell), ast.Await)[0] == "-a plan"


def test_unloading_takes_the_transformer_away() -> None:
    shell = InteractiveShell()
    manager = shell.input_transformer_manager
    before = [*shell.input_transformers_cleanup], [*manager.token_transformers]
    magic.load(shell)
    assert before != ([*shell.input_transformers_cleanup], [*manager.token_transformers])
    magic.unload(shell)
    assert before == ([*shell.input_transformers_cleanup], [*manager.token_transformers])
    shell.history_manager.end_session()
