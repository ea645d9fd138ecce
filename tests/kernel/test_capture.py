from __future__ import annotations

import base64
import inspect
import io
import json
import os
import re
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from ipyagent.kernel.capture import run_plain
from ipyagent.kernel.outputs import KEPT, MAX_IMAGES, MAX_TABLES, PIECE, Outputs
from kernels import Kernel
from patience import PATIENCE

SETUP = """
import inspect as _inspect, json as _json
from ipyagent.kernel.namespace import ShellNamespace as _ShellNamespace
_namespace = _ShellNamespace(get_ipython())
def _report(result):
    return dict(result.to_dict(), value=repr(result.value))
"""


class Capturing:
    """A real kernel, what it publishes, and the code that is captured in it."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.cell(SETUP)

    def cell(self, code: str) -> list[dict[str, Any]]:
        """Run a cell of the user's; return its output messages."""
        reply = self.kernel.run(code)
        self.reply = reply.content
        return [
            {"type": each["msg_type"], **each["content"]}
            for each in reply.messages
            if each["msg_type"] not in ("status", "execute_input")
        ]

    def value(self, expression: str) -> Any:
        """Return the value of an expression, by way of JSON."""
        outputs = self.cell(f"print(_json.dumps({expression}))")
        return json.loads("".join(output["text"] for output in outputs))

    def run(self, code: str, *, wait: bool = True) -> dict[str, Any]:
        """Run code as the tool does, inside a cell that must stay silent; return the result."""
        awaited = "_r = await _r if _inspect.isawaitable(_r) else _r" if wait else ""
        self.leaked = self.cell(f"_r = _namespace.run({code!r})\n{awaited}")
        assert self.reply["status"] == "ok", self.reply
        return dict(self.value("_report(_r)"))


@pytest.fixture(scope="module")
def kernel(kernel_of_module: Kernel) -> Capturing:
    return Capturing(kernel_of_module)


@pytest.fixture(scope="module")
def plots(kernel: Capturing) -> Capturing:
    kernel.cell("import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.close('all')")
    return kernel


pytestmark = pytest.mark.timeout(180)


@pytest.mark.spec("A36")
def test_output_comes_in_the_order_in_which_it_was_made(kernel: Capturing):
    result = kernel.run(
        "import sys\n"
        "from IPython.display import Markdown, display\n"
        "print('one')\n"
        "print('two', file=sys.stderr)\n"
        "display(Markdown('**three**'))\n"
        "print('four')\n"
        "'five'"
    )
    lines = result["output"].splitlines()
    assert lines == ["one", "[stderr]", "two", "**three**", "[stdout]", "four", "'five'"]
    assert result["displays"][0]["data"]["text/markdown"] == "**three**"
    assert result["success"]
    assert result["value"] == "'five'"
    assert kernel.leaked == []


def test_variables_of_the_code_stay_in_the_users_namespace(kernel: Capturing):
    kernel.cell("mine = [1]")
    kernel.run("mine.append(2)\nnew = len(mine)")
    assert kernel.value("[mine, new]") == [[1, 2], 2]


def test_a_table_is_returned_as_text_html_and_live_object(kernel: Capturing):
    result = kernel.run("import pandas as pd\npd.DataFrame({'a': range(3)})")
    assert result["output"] == "   a\n0  0\n1  1\n2  2"
    assert "<table" in result["displays"][0]["data"]["text/html"]
    assert kernel.value("type(_r.value).__name__") == "DataFrame"


def test_a_series_is_drawn_as_its_frame_is(kernel: Capturing):
    kernel.cell("import pandas as pd\nmasses = pd.DataFrame({'s': ['a', 'b'], 'm': [1.5, 2]})")
    result = kernel.run("masses.groupby('s').m.sum()")
    assert "Name: m, dtype: float64" in result["output"]
    assert result["displays"][0]["data"]["text/plain"] == result["output"]
    html = kernel.value("masses.groupby('s')[['m']].sum()._repr_html_()")
    assert result["displays"][0]["data"]["text/html"] == html
    (bare,) = kernel.run("display(pd.Series([1])); None")["displays"]
    assert "<th></th>\n    </tr>" in bare["data"]["text/html"], "a name of our own would be seen"
    kernel.cell("pd.set_option('display.notebook_repr_html', False)")
    assert kernel.run("masses.m")["displays"] == []
    kernel.cell("pd.reset_option('display.notebook_repr_html')")


def test_a_styled_table_has_its_colors_in_its_cells(kernel: Capturing):
    kernel.cell("import pandas as pd\nnumbers = pd.DataFrame({'a': [1, 3], 'b': [2, 4]})")
    code = (
        "style = numbers.style.bar(subset=['b']).highlight_max()\n"
        "style.map(lambda n: 'background: RGB(0, 0, 255) !important' * (n == 1))"
    )
    html = kernel.run(code)["displays"][0]["data"]["text/html"]
    cells = re.findall(r'<t[dh] id="[^"]*?(row\d_col\d)"([^>]*)>', html)
    colors = {cell: re.findall('bgcolor="(.*?)"', more) for cell, more in cells}
    yellow = ["#ffff00"]
    assert colors == {
        "row0_col0": ["#0000ff"], "row0_col1": [], "row1_col0": yellow, "row1_col1": yellow
    }  # fmt: skip


@pytest.mark.parametrize(
    ("code", "kept"),
    [
        ("display(b); display(a, b); a", "ba"),
        ("display(a.style); b;", "ab"),
        ("display(polars_table); display(a['x']); print(b)", "px"),
        ("display(a); clear_output(); display(b)", "b"),
        ("display(a, display_id='t'); display(b); update_display(c, display_id='t')", "cb"),
        ("for n in range(3): display(a)\nraise ValueError", "a"),
        ("display({'no': a}); [a]", ""),
    ],
)
def test_tables_that_code_displays_are_kept_as_objects(kernel: Capturing, code: str, kept: str):
    kernel.cell(
        "import pandas as pd, polars as pl\n"
        "from IPython.display import display, update_display, clear_output\n"
        "a, b, c = (pd.DataFrame({'x': [n]}) for n in range(3))\n"
        "polars_table = pl.DataFrame({'x': [1]})\n"
        "_known = {id(a): 'a', id(b): 'b', id(c): 'c', id(polars_table): 'p'}"
    )
    kernel.run(code)
    assert kernel.value("''.join(_known.get(id(t), 'x') for t in _r.frames)") == kept
    assert kernel.leaked == []


def test_secrets_in_a_table_that_was_only_displayed_are_learned(kernel: Capturing):
    kernel.cell(
        "import pandas as pd\n"
        "from ipyagent.redaction import Redactor as _Redactor\n"
        "_redactor = _Redactor()\n"
        "_watched = _namespace.watched_by(_redactor)\n"
        "_watched.run(\"display(pd.DataFrame({'password': ['Kq7-vantage-31']}))\")"
    )
    assert "Kq7-vantage-31" in kernel.value("sorted(_redactor.values)")


def test_the_number_of_tables_kept_for_a_call_is_limited(kernel: Capturing):
    kernel.run("import pandas as pd\nfor n in range(70): display(pd.DataFrame({'x': [n]}))")
    assert kernel.value("[len(_r.frames), _r.tables]") == [MAX_TABLES, MAX_TABLES]


def test_a_large_table_stays_short_with_any_display_options(kernel: Capturing):
    kernel.cell("import pandas as pd; pd.set_option('display.max_rows', None)")
    big = "pd.DataFrame({'a': range(5000)})"
    assert len(kernel.value(f"repr({big})").splitlines()) > 5000
    result = kernel.run(big)
    assert len(result["output"].splitlines()) < 70
    assert len(result["displays"][0]["data"]["text/html"]) < 20_000
    assert kernel.value("pd.get_option('display.max_rows')") is None
    kernel.cell("pd.reset_option('display.max_rows')")


FIGURES = {
    "left open": "plt.plot([1, 3]);",
    "shown": "plt.plot([1, 3])\nplt.show()",
    "as the last value": "fig, ax = plt.subplots()\nax.plot([1, 3])\nfig",
    "of failing code": "plt.plot([1, 3])\n1 / 0",
    "of awaiting code": "import asyncio\nplt.plot([1, 3])\nawait asyncio.sleep(0)",
}


@pytest.mark.parametrize("kind", FIGURES)
def test_a_figure_is_captured_once_and_closed(plots: Capturing, kind: str):
    result = plots.run(FIGURES[kind])
    (image,) = result["images"]
    assert result["success"] == (kind != "of failing code")
    assert image["media_type"] == "image/png"
    assert image["width"] > 100
    assert image["height"] > 100
    assert f"[image, {image['width']}" in result["output"]
    assert result["displays"] == []
    assert plots.leaked == []
    assert plots.value("plt.get_fignums()") == []


def test_a_large_figure_is_scaled_for_the_model(plots: Capturing):
    result = plots.run("plt.figure(figsize=(40, 20)); plt.plot([1, 3]);")
    assert result["images"][0]["width"] == 1568
    assert 700 < result["images"][0]["height"] < 900


@pytest.mark.spec("A36", "D10")
def test_an_error_result_shows_only_the_users_frames(kernel: Capturing):
    kernel.cell("def helper(x):\n    return int(x)")
    count = kernel.reply["execution_count"]
    result = kernel.run("import json\nprint('before')\njson.loads('[') if 0 else helper('x')")
    assert not result["success"]
    assert result["error"] == "ValueError: invalid literal for int() with base 10: 'x'"
    assert result["output"].splitlines()[:3] == [
        "before",
        "Traceback (most recent call last):",
        '  File "<code>", line 3, in <module>',
    ]
    assert f'File "In[{count}]", line 2, in helper' in result["output"]
    assert "    return int(x)" in result["output"]
    assert "IPython" not in result["output"]
    assert "\x1b" not in result["output"]
    assert kernel.leaked == []


EXCEPTIONS = [
    ("def f(:", "SyntaxError: invalid syntax"),
    ("  x = 1\n y = 2", "IndentationError: "),
    ("return 1", "SyntaxError: 'return' outside function"),
    ("%nosuchmagic", "UsageError: "),
    ("raise SystemExit(3)", "SystemExit: 3"),
    ("exit()", "SystemExit: exit() was ignored"),
    ("quit", "SystemExit: exit() was ignored"),
    ("def f(): return f()\nf()", "RecursionError: "),
    ("raise MemoryError", "MemoryError"),
    ("raise GeneratorExit", "GeneratorExit"),
    ("raise KeyboardInterrupt", "KeyboardInterrupt: interrupted"),
    ("raise StopIteration(1)", "StopIteration: 1"),
    ("import asyncio\nraise asyncio.CancelledError", "CancelledError"),
    ("await nothing_there", "NameError: "),
    (
        "raise ExceptionGroup('two', [ValueError(1), TypeError(2)])",
        "ExceptionGroup: two (2 sub",
    ),
    (
        "class E(Exception):\n    def __str__(self): raise ValueError\nraise E",
        "E: <exception str() failed>",
    ),
]


@pytest.mark.spec("A36", "D10")
def test_any_exception_of_the_code_is_a_failed_result(kernel: Capturing):
    wrong = []
    for code, error in EXCEPTIONS:
        result = kernel.run(code)
        is_named = result["error"].startswith(error) and error.partition(":")[0] in result["output"]
        is_short = "interactiveshell.py" not in result["output"] or "magic" in code
        if result["success"] or not (is_named and is_short) or kernel.leaked:
            wrong.append((code, result, kernel.leaked))
        assert kernel.run("1 + 1")["value"] == "2", code
    assert not wrong


def test_an_error_inside_a_magic_or_a_repr_is_reported_but_does_not_fail_the_code(
    kernel: Capturing,
):
    result = kernel.run("class C:\n    def _repr_html_(self): return 1 / 0\nC()")
    assert "ZeroDivisionError: division by zero" in result["output"]
    assert result["success"]
    kernel.cell("open('fails.py', 'w').write('undefined_name')")
    result = kernel.run("%run fails.py")
    assert "NameError: name 'undefined_name' is not defined" in result["output"]
    assert kernel.leaked == []


def test_magics_and_shell_commands_work(kernel: Capturing):
    assert "hello shell" in kernel.run("!echo hello shell")["output"]
    assert kernel.run("files = !echo a b\nfiles[0]")["value"] == "'a b'"
    assert "loop" in kernel.run("%timeit -n1 -r1 pass")["output"]
    assert kernel.run("%%time\nx = 1")["success"]
    assert kernel.leaked == []


def test_help_that_code_asks_for_is_its_output(kernel: Capturing):
    assert "number of items" in kernel.run("len?")["output"]
    assert kernel.leaked == []
    assert kernel.reply["payload"] == []


def test_code_may_await_where_the_cell_can(kernel: Capturing):
    result = kernel.run("import asyncio\nprint('a')\nawait asyncio.sleep(0, 'done')")
    assert result["output"] == "a\n'done'"
    assert result["value"] == "'done'"
    assert kernel.leaked == []


def test_code_that_awaits_in_a_blocking_cell_fails_with_the_reason(kernel: Capturing):
    kernel.cell("from ipyagent.kernel.capture import run as _run")
    assert kernel.cell("_r = _run(get_ipython(), 'await x')") == []
    assert kernel.value("_r.error").startswith("top-level await is not possible in this cell")


def test_cancelling_awaiting_code_cancels_it(kernel: Capturing):
    kernel.cell(
        "import asyncio\n"
        "_task = asyncio.ensure_future(_namespace.run('await asyncio.sleep(60)'))\n"
        "await asyncio.sleep(0.01)\n"
        "_task.cancel()\n"
        "await asyncio.wait([_task])"
    )
    assert kernel.value("_task.cancelled()")


def test_the_users_history_and_last_values_are_untouched(kernel: Capturing):
    shell = "get_ipython()"
    state = (
        f"[repr((_, __, ___)), sorted(Out), {shell}.history_manager.input_hist_raw[:-1][-3:], "
        f"sorted(k for k in globals() if k[:1] == '_' and k[1:].isdigit()), "
        f"{shell}.history_manager.outputs.keys().__len__()]"
    )
    kernel.cell("'mine'")
    kernel.cell(f"_before = {state}; _count = {shell}.execution_count")
    kernel.cell("_r = _namespace.run('print(7)\\n[41, 42]')")
    kernel.cell(f"_after = {state}; _moved = {shell}.execution_count - _count")
    before, after, moved = kernel.value("[_before, _after, _moved]")
    assert before[0] == after[0]
    assert "mine" in before[0]
    assert before[1] == after[1]
    assert not any("41" in source and "_namespace" not in source for source in after[2])
    assert before[3] == after[3]
    assert before[4] == after[4]
    assert moved == 2


def test_the_shell_is_restored_afterwards(kernel: Capturing):
    state = (
        "[sorted(vars(get_ipython())), id(sys.stdout), id(get_ipython().display_pub), "
        "id(sys.displayhook), id(get_ipython().display_trap.hook)]"
    )
    kernel.cell("import sys")
    kernel.cell(f"_before = {state}")
    for code in ("1", "1 / 0", "def f(:", "await nothing", "raise KeyboardInterrupt"):
        kernel.run(code)
    kernel.cell(f"_after = {state}")
    before, after = kernel.value("[_before, _after]")
    assert before == after
    assert [o["type"] for o in kernel.cell("2 + 2")] == ["execute_result"]
    assert [o["type"] for o in kernel.cell("1 / 0")] == ["error"]


def test_displays_of_others_are_not_recorded_for_the_code(kernel: Capturing):
    outputs = kernel.cell(
        "import asyncio, threading\n"
        "from IPython.display import display\n"
        "go, done = threading.Event(), threading.Event()\n"
        "def other():\n"
        "    go.wait(); display('from a thread'); print('printed'); done.set()\n"
        "threading.Thread(target=other).start()\n"
        "async def card():\n"
        "    await asyncio.sleep(0.01); display('from a task')\n"
        "task = asyncio.ensure_future(card())\n"
        "code = 'go.set(); done.wait(); await asyncio.sleep(0.05); print(1)'\n"
        "_r = await _namespace.run(code)\n"
    )
    texts = [o.get("text") or o["data"]["text/plain"] for o in outputs]
    assert {"'from a thread'", "'from a task'"} <= set(texts)
    assert "printed" in "".join(texts)
    assert kernel.value("_r.output") == "1"


def test_one_thread_reads_what_passes_by_both_streams():
    before, names = {*threading.enumerate()}, {}
    code = (
        "import os, threading\n"
        "os.write(1, b'one '), os.write(2, b'two ')\n"
        "found = threading.enumerate()"
    )
    assert {"one", "two"} <= {*run_plain(names, code).output.split()}
    assert len({*names["found"]} - before) == 1


def test_output_of_threads_that_the_code_starts_is_recorded(kernel: Capturing):
    result = kernel.run(
        "import threading\n"
        "t = threading.Thread(target=lambda: (print('mine'), display('too')))\n"
        "t.start(); t.join()"
    )
    assert result["output"] == "mine\n'too'"
    assert kernel.leaked == []


def test_displays_can_be_updated_and_cleared(kernel: Capturing):
    result = kernel.run(
        "from IPython.display import clear_output\n"
        "handle = display('first', display_id=True)\n"
        "handle.update('second')"
    )
    assert result["output"] == "'second'"
    result = kernel.run("for i in range(3):\n    clear_output(wait=True)\n    print(i)")
    assert result["output"] == "2"
    assert kernel.leaked == []


def test_a_semicolon_keeps_the_value_and_hides_its_text(kernel: Capturing):
    result = kernel.run("'quiet';")
    assert result["output"] == ""
    assert result["value"] == "'quiet'"


@pytest.mark.spec("D5", "H17")
def test_terminal_escapes_are_removed_from_output(kernel: Capturing):
    result = kernel.run(
        "print('\\x1b]0;evil\\x07ok\\x9b31m')\nraise ValueError('\\x1b[31mbad\\x1b(B')"
    )
    assert result["output"].startswith("ok\n")
    assert result["error"] == "ValueError: bad"
    assert "\x1b" not in result["output"]


def test_latex_and_svg_are_displays(kernel: Capturing):
    result = kernel.run(
        "from IPython.display import SVG, Latex\n"
        "display(Latex('$x^2$'), SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>'))"
    )
    kinds = [set(display["data"]) - {"text/plain"} for display in result["displays"]]
    assert kinds == [{"text/latex"}, {"image/svg+xml"}]


def test_an_interrupt_ends_the_code_with_a_result(kernel: Capturing):
    kernel.cell("import signal")
    result = kernel.run(
        "import os, signal, time\n"
        "_old = signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "print('started')\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGINT); time.sleep(60)\n"
        "finally:\n"
        "    signal.signal(signal.SIGINT, _old)"
    )
    assert result["error"] == "KeyboardInterrupt: interrupted"
    assert result["output"].startswith("started\n")


# A terminal shell ---------------------------------------------------------------------------------

TERMINAL = """
import json, sys
from IPython.terminal.interactiveshell import TerminalInteractiveShell
shell = TerminalInteractiveShell.instance()
shell.history_manager.enabled = False
from ipyagent.kernel.namespace import ShellNamespace
import matplotlib; matplotlib.use("agg")
results = []
for code in json.loads(sys.argv[1]):
    result = ShellNamespace(shell).run(code)
    results.append(dict(result.to_dict(), value=repr(result.value)))
sys.__stdout__.write("RESULTS" + json.dumps(results))
"""


def test_a_terminal_shell_works_the_same(tmp_path: Path):
    codes = [
        "print('hi')\n1 + 1",
        "!echo hello shell",
        "1 / 0",
        "import matplotlib.pyplot as plt; plt.plot([1, 2]);",
        "plt.get_fignums()",
        "import asyncio\nawait asyncio.sleep(0, 'done')",
        "raise SystemExit",
    ]
    done = subprocess.run(
        [sys.executable, "-c", TERMINAL, json.dumps(codes)],
        env=os.environ | {"IPYTHONDIR": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    leaked, _, report = done.stdout.partition("RESULTS")
    hi, echo, zero, figure, left, awaited, exit_ = json.loads(report)
    assert leaked == ""
    assert hi["output"] == "hi\n2"
    assert echo["output"] == "hello shell"
    assert zero["error"] == "ZeroDivisionError: division by zero"
    assert len(figure["images"]) == 1
    assert left["value"] == "[]"
    assert awaited["value"] == "'done'"
    assert exit_["error"] == "SystemExit"


# A script -----------------------------------------------------------------------------------------


def test_a_script_needs_no_shell():
    namespace: dict[str, Any] = {"x": 20}
    result = run_plain(namespace, "print('hi')\ny = x + 1\ny * 2")
    assert result.success
    assert result.output == "hi\n42"
    assert result.value == 42
    assert namespace["y"] == 21


def test_any_exception_of_a_script_is_a_failed_result():
    ours = ("await", "%", "exit", "quit")  # what IPython alone understands, or says in its own way
    plain = [each for each in EXCEPTIONS if not each[0].startswith(ours)]
    wrong, before = [], (sys.stdout, sys.displayhook)
    for code, error in [*plain, ("await x", "SyntaxError: top-level await is not possible")]:
        result = run_plain({}, code)
        if result.success or not str(result.error).startswith(error):
            wrong.append((code, result.error))
        assert (sys.stdout, sys.displayhook) == before, code
    assert not wrong


def test_a_scripts_traceback_shows_its_own_lines():
    namespace: dict[str, Any] = {}
    result = run_plain(namespace, "def f():\n    raise ValueError('bad')\nf()")
    assert inspect.getsource(namespace["f"]) == "def f():\n    raise ValueError('bad')\n"
    # Newer Pythons underline the part of a line that failed.
    lines = [line for line in result.output.split("\n") if line.strip(" ~^")]
    assert "\n".join(lines) == textwrap.dedent(
        """\
        Traceback (most recent call last):
          File "<code>", line 3, in <module>
            f()
          File "<code>", line 2, in f
            raise ValueError('bad')
        ValueError: bad"""
    )


# Outputs -----------------------------------------------------------------------------------------


def test_gigabytes_of_output_are_not_kept():
    outputs = Outputs()
    outputs.write("stdout", "first\n")
    for _ in range(200):
        outputs.write("stdout", "x" * 100_000 + "\n")
    outputs.write("stdout", "last\n")
    text = outputs.text()
    assert len(text) < KEPT + 1000
    assert text.startswith("first\n")
    assert text.endswith("last")
    assert "characters were not kept" in text


def test_a_display_that_grows_when_it_is_updated_counts_as_it_is():
    outputs = Outputs()
    for number in range(2 * KEPT // PIECE):
        outputs.show({"text/plain": "begun"}, str(number))
        outputs.update({"text/plain": "x" * PIECE}, str(number))
    outputs.write("stdout", "last\n")
    assert len(outputs.text()) < KEPT + 1000


def test_the_number_of_pictures_kept_is_limited():
    outputs = Outputs()
    for shade in range(MAX_IMAGES + 5):
        outputs.show({"image/png": picture(f"#0000{shade:02}")})
    assert len(outputs.images) == MAX_IMAGES


def test_a_broken_picture_is_named_and_not_sent():
    outputs = Outputs()
    outputs.show({"image/png": "bm90IGEgcGljdHVyZQ==", "text/plain": "<Figure>"})
    assert outputs.images == ()
    assert outputs.text() == "<Figure>"


def test_a_table_knows_how_many_figures_were_shown_before_it():
    outputs = Outputs()
    table = {"text/html": "<table></table>", "text/plain": "t"}
    outputs.show(table)
    for colour in ("red", "blue"):
        outputs.show({"image/png": picture(colour), "text/plain": "<Figure>"})
    outputs.show(table)
    assert [display.images_before for display in outputs.displays] == [0, 2]


def picture(colour: str) -> str:
    made = io.BytesIO()
    Image.new("RGB", (2, 2), colour).save(made, "png")
    return base64.b64encode(made.getvalue()).decode()


def test_an_error_with_a_very_long_message_is_read_in_part() -> None:
    result = run_plain({}, "raise ValueError('begin ' + 'x' * 20_000_000 + ' end')")
    assert "ValueError: begin xxx" in (result.error or "")
    texts = (result.full_output or "", result.output, result.error or "", result.for_model or "")
    assert max(map(len, texts)) < 300_000
