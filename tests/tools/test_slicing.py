"""A slice of a program gives what the whole program gives: generated programs, and single rules."""

from __future__ import annotations

import contextlib
import io
import random
from typing import Any

import pytest

from ipyagent.tools.static_analysis.slicing import Code, keep_completed, slice_code

BEGIN = """
import contextlib
def touch(x):
    if isinstance(x, list) and len(x) < 5: x.append(1)
    if isinstance(x, dict): x['t'] = len(x)
    return x
def change_e():
    global e
    e = [len(str(a))]
def later(): return a
class K: v = 1
@contextlib.contextmanager
def within(x): yield x
a = [1]; b = {'k': []}; c = 3; d = [4]; e = 5
"""

STATEMENTS = [
    *("{a} = [{n}]", "{a} = {{'k': [{n}]}}", "{a} = {b}", "{a} = list({b})", "{a} = [{b}, {c}]"),
    *("{a} = {b}[0] if {b} else {c}", "{a} = len(str({b}))", "{a} = str({b}) + str({c})"),
    *("{b}.append({n}) if isinstance({b}, list) else None", "touch({b})", "{a} = touch({b})"),
    *("for q in range({n}):\n    {a} = [q, {b}]", "if {n} > 2:\n    {a} = {b}"),
    *("print({a}, {b})", "{a}", "str({a})", "{a} = {b}; {c} = {a}", "{a} = {a}"),
    *("{a} = (lambda: {b})()", "({a} := {b})", "del {a}\n{a} = {n}", "{a}, {b} = {b}, {a}"),
    *("change_e()", "{b} = later()", "def later():\n    return {a}", "{a} = f'{{{b}}}'"),
    *("class K:\n    v = {a}", "{a} = K.v", "K.v = {b}", "{a} = [z for z in [{b}]]"),
    *("{a} = list(map(touch, [{b}]))", "{a} = sorted([{b}], key=lambda v: str(touch(v)))"),
    *("[touch(z) for z in [{b}]]", "{a} = [str(touch(z)) for z in [{b}, {c}]]"),
    "try:\n    {a} = {b} + {c}\nexcept TypeError:\n    {a} = {n}",
    "{a} = {b}.copy() if isinstance({b}, list) else [{c}]",
    "with within({b}) as {a}:\n    {c} = {a}",
    "{a} += {b} if isinstance({a}, list) and isinstance({b}, list) else []",
]


def write_program(chance: random.Random) -> list[str]:
    """Return a program in pieces, as calls run them."""
    lines = []
    for _ in range(chance.randint(3, 14)):
        a, b, c = chance.choices("abcde", k=3)
        template = chance.choice(STATEMENTS)
        lines.append(template.format(a=a, b=b, c=c, n=chance.randint(0, 4)))
    pieces = [BEGIN]
    while lines:
        size = chance.randint(1, 3)
        pieces.append("\n".join(lines[:size]))
        del lines[:size]
    return pieces


def plain(value: object, depth: int = 0) -> object:
    """Return a value without addresses, and not deeper than a few levels."""
    if depth < 6 and isinstance(value, list):
        return [plain(each, depth + 1) for each in value]
    if depth < 6 and isinstance(value, dict):
        return {key: plain(each, depth + 1) for key, each in value.items()}
    return value if isinstance(value, int | str | None) else type(value).__name__


def execute(pieces: list[str]) -> tuple[dict[str, object], list[str]]:
    """Return what the variables hold in the end, and the output of each piece."""
    variables: dict[str, Any] = {}
    outputs = []
    for each in pieces:
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(each, variables)
        outputs.append(output.getvalue())
    return {name: plain(variables.get(name)) for name in "abcde"}, outputs


def test_a_slice_of_a_generated_program_gives_the_same_variables_and_output() -> None:
    count = 0
    for seed in range(500):
        chance = random.Random(seed)
        pieces = write_program(chance)
        try:
            before, outputs = execute(pieces)
        except Exception:  # a program that makes no sense
            continue
        wanted = set(chance.sample("abcde", 2))
        shown = chance.randrange(1, len(pieces))
        codes = [Code(each, puts_out=number == shown) for number, each in enumerate(pieces)]
        slices = slice_code(codes, wanted, {})
        after, outputs_after = execute(["\n".join([*s.imports, s.text]) for s in slices])
        assert {n: after[n] for n in wanted} == {n: before[n] for n in wanted}, (seed, pieces)
        assert outputs_after[shown] == outputs[shown], (seed, pieces)
        count += sum(not each.text for each in slices)
    assert count > 100, "it slices nothing away"


@pytest.mark.parametrize(
    ("code", "kept"),
    [
        ("x = df.dropna()\nx = df.fillna(0)", "x = df.fillna(0)"),
        ("x = unknown(df)\nx = 1", "x = unknown(df)\nx = 1"),
        ("df.head()\nprint(len(df))\nx = 1", "x = 1"),
        (
            "df.drop(columns='a', inplace=True)\nx = df",
            "df.drop(columns='a', inplace=True)\nx = df",
        ),
        ("%matplotlib inline\nx = 1\n!ls", "%matplotlib inline\nx = 1\n!ls"),
        ("%%writefile a.py\ny = 1\nx = 1", "%%writefile a.py\ny = 1\nx = 1"),
        ("y = '\u2028'\nprint(y)\nx = y", "y = '\u2028'\nx = y"),
        ("files = !ls\nx = 1", "files = !ls\nx = 1"),
        ("data = await fetch()\nx = data", "data = await fetch()\nx = data"),
        ("open('a.txt', 'w').write('b')\nx = 1", "open('a.txt', 'w').write('b')\nx = 1"),
        ("import os\nimport re\nx = os.sep", "x = os.sep"),
    ],
)
def test_statements_are_kept_unless_it_is_known_that_they_do_not_matter(
    code: str, kept: str
) -> None:
    (found,) = slice_code([Code(code)], {"x"}, {})
    assert found.text == kept


def test_a_look_is_left_out_whatever_it_calls() -> None:
    pieces = [Code("unknown(df)\ny = 1", only_looked=True), Code("x = y")]
    assert [each.text for each in slice_code(pieces, {"x"}, {})] == ["y = 1", "x = y"]


def test_a_whole_piece_is_kept_or_left_out() -> None:
    pieces = [Code("import re\na = 1\nb = 2", is_whole=True), Code("c = 3", is_whole=True)]
    pieces.append(Code("x = b"))
    assert [each.text for each in slice_code(pieces, {"x"}, {})] == ["a = 1\nb = 2", "", "x = b"]


HALF = "try:  # it failed, and had begun\n    {}\nexcept Exception:\n    pass"


@pytest.mark.parametrize(
    ("code", "line", "kept"),
    [
        ("a = 1\nb = a\nc = missing", 3, "a = 1\nb = a\n" + HALF.format("c = missing")),
        ("a = (\n    1 +\n    b)", 3, HALF.format("a = (\n        1 +\n        b)")),
        ("a = 1", 0, ""),
        ("%%bash\nls", 2, ""),
        ("a = 1\nfor n in b:\n    f(n)", 3, "a = 1\n" + HALF.format("for n in b:\n        f(n)")),
        ("a.sort(); a.append(1 / 0)", 1, HALF.format("a.sort(); a.append(1 / 0)")),
        ('for n in b:\n    f("""a\nb""")', 2, HALF.format("for n in b:\n        f('a\\nb')")),
    ],
)
def test_code_that_failed_is_kept_as_far_as_it_came(code: str, line: int, kept: str) -> None:
    assert keep_completed(code, line) == kept


BOX = "class Box:\n    def put(self, n):\n        self.n = n\n        raise ValueError\nx = Box()"


@pytest.mark.parametrize(
    ("before", "failed"),
    [
        ("x = [1]", "x.remove(3)"),
        ("x = []", "x.append(int('a'))"),
        ("x = load()", "y = x.revnue.sum()"),
        ("x = model()", "x.fit(table.dropna())"),
        ("x = {}", "x['a'] = missing"),
        ("x = 1", "import missing"),
        (BOX, "print(missing)"),
    ],
)
def test_what_failed_is_left_out_if_it_has_changed_nothing(before: str, failed: str) -> None:
    pieces = [Code(before), Code(keep_completed(failed, 1))]
    assert [each.text for each in slice_code(pieces, {"x"}, {})] == [before, ""]


@pytest.mark.parametrize(
    ("before", "failed"),
    [
        (BOX, "x.put(3)"),
        (BOX, "y = x.put(3)"),
        (f"{BOX}\nboxes = [x]", "boxes[0].put(3)"),
        (f"{BOX}\ndef take():\n    return x", "take().put(3)"),
        (BOX.replace("put", "__setitem__").replace("n):", "n, m):"), "x[1] = 2"),
        (BOX.replace("put", "__add__"), "y = x + 1"),
        ("x = []\ndef put(n):\n    x.append(n)\n    raise ValueError", "put(3)"),
        ("x = []\ndef put(n):\n    x.append(n)\n    raise ValueError", "list(map(put, [3]))"),
        ("x = [1, 2]", "y = x.pop() / 0"),
        ("x = [1, 2]", "x.pop().missing()"),
        ("x = []", "x.extend(int(n) for n in '12a')"),
        ("x = []", "y = [x.append(int(n)) for n in '12a']"),
        ("x = iter([1, 2])", "y = int(next(x)) / 0"),
        ("x = []", "t.map(lambda n: x.append(n))"),
    ],
)
def test_what_failed_is_kept_if_it_may_have_changed_anything(before: str, failed: str) -> None:
    pieces = [Code(before), Code(keep_completed(failed, 1))]
    texts = [each.text for each in slice_code(pieces, {"x"}, {})]
    assert texts == [before, HALF.format(failed)]


def test_what_failed_is_kept_if_it_is_code_of_the_users_kernel() -> None:
    class Box:
        """As a cell would define it."""

    Box.__module__ = "__main__"
    failed = Code(keep_completed("x.put(3)", 1))
    (kept,) = slice_code([failed], {"x"}, {"x": Box()})
    (gone,) = slice_code([failed], {"x"}, {"x": []})
    assert (kept.text, gone.text) == (failed.text, "")
