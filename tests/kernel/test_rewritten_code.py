"""What is judged is what runs: code that IPython or a transformer rewrites has unknown effects."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from IPython.core.interactiveshell import InteractiveShell

from ipyagent.kernel.namespace import ShellNamespace
from ipyagent.tools.static_analysis import UNKNOWN_EFFECTS, Effects
from ipyagent.tools.static_analysis.code import analyze_code
from ipyagent.tools.tracked_namespace import TrackedNamespace

LINE_ENDS = [chr(code) for code in range(0x3000) if len(f"a{chr(code)}b".splitlines()) > 1]

ESCAPES = (
    *("!true", "!!true", "%who", "%%time", "?X", "X?", "??X", "X??", "X.*?", "f?"),
    *(",f a b", ";f a b", "/print 1", ">>> print(1)", "In [1]: print(1)", "...: print(1)"),
    *("x = %who", "x = !true", "a, b = !true"),
)

PLACES = (
    "# the mean of the price{end}{escape}{end}print(X)\nX = 2",
    "X = 2  # the mean of the price{end}{escape}",
    "X = '''the mean{end}{escape}{end}of the price'''",
    "def f():\n    '''The mean{end}    {escape}{end}    of the price.'''\n    X = 2",
    "X = 2\nY = f'''{{X}}{end}{escape}{end}'''",
    "X = (2 +{end}{escape}{end}3)",
    "{escape}{end}X = 2",
)


@pytest.fixture(scope="module")
def shell() -> Iterator[InteractiveShell]:
    shell = InteractiveShell()
    shell.user_ns["X"] = 1
    yield shell
    shell.history_manager.end_session()


def judge(shell: InteractiveShell, code: str) -> Effects:
    return TrackedNamespace(ShellNamespace(shell)).analyze(code)


@pytest.mark.filterwarnings("ignore:.*make_tokens_by_line")
def test_no_character_that_ends_a_line_hides_what_the_shell_makes_of_it(
    shell: InteractiveShell,
) -> None:
    assert {"\n", "\r", "\x85", "\u2028", "\u2029"} < {*LINE_ENDS}
    hidden, wrong = 0, []
    for end in LINE_ENDS:
        for escape in ESCAPES:
            for place in PLACES:
                code = place.format(end=end, escape=escape)
                try:
                    runs = ast.parse(shell.transform_cell(code))
                except (SyntaxError, ValueError):
                    continue  # then nothing runs
                # None of the code calls anything but what the shell makes of it.
                if any(isinstance(node, ast.Call) for node in ast.walk(runs)):
                    hidden += not analyze_code(code, shell.user_ns).touches
                    if not judge(shell, code).touches:
                        wrong.append(code)
    assert hidden > 50, "the corpus must be dangerous to those who read the text alone"
    assert wrong == []


@pytest.mark.parametrize(
    "code",
    [
        "# is it ok?\nX = 2",
        "X = 2\r\nY = X + 1\r\n",
        "\n\nY = '''a\n!b\n%c\n?d'''",
        "Y = X % 2",
        "async def f():\n    return X\nY = await f()",
        "Y = [X for X in (1, 2)]  # %who",
    ],
)
def test_plain_code_is_judged_by_its_text(shell: InteractiveShell, code: str) -> None:
    assert judge(shell, code) == analyze_code(code, shell.user_ns)


def test_transformers_of_the_user_count(shell: InteractiveShell) -> None:
    def add_a_call(lines: list[str]) -> list[str]:
        return [*lines, "open('PWN', 'w')\n"]

    def fail(lines: list[str]) -> list[str]:
        raise RuntimeError

    manager = shell.input_transformer_manager
    for transformers, transformer in (
        (shell.input_transformers_post, add_a_call),
        (shell.input_transformers_post, fail),
        (manager.line_transforms, add_a_call),
        (manager.cleanup_transforms, add_a_call),
        (shell.ast_transformers, ast.NodeTransformer()),
    ):
        assert judge(shell, "Y = 2").touches == {}
        transformers.append(transformer)
        try:
            assert UNKNOWN_EFFECTS in judge(shell, "Y = 2").touches
        finally:
            transformers.remove(transformer)
