"""Completion in `%%agent` cells, as any front end asks a real kernel for it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernels import Kernel, kernel
from patience import PATIENCE

pytestmark = pytest.mark.kernel

SETTINGS = """\
agents:
  reviewer: {confirm_mode: confirm-all}
  plotter: {allowed_tools: [run_python]}
"""

VARIABLES = """\
import pandas as pd

class Touchy:
    def __repr__(self): raise SystemError("touched")
    __len__ = __str__ = __eq__ = __getattribute__ = __repr__

threshold = 0.5
sales = pd.DataFrame({"region": ["N"] * 18204, "revenue": 1.0})
salt = Touchy()
api_token = "sk-" + "a" * 40
_private = 1
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    folder = tmp_path_factory.mktemp("completed")
    (folder / "data").mkdir()
    (folder / ".ssh").mkdir()
    for name in ("data/sales.csv", "notes.md", ".env", ".ssh/id_rsa", "data/with space.csv"):
        (folder / name).write_text("x\n")
    (folder / "key.pem").write_text("secret")
    (folder / "script.yaml").write_text("[]")
    (folder / "ipyagent.yaml").write_text(SETTINGS)
    with kernel(folder) as started:
        assert started.run(VARIABLES).status == "ok"
        yield started


def asked(running: Kernel, text: str) -> dict[str, Any]:
    """The kernel's answer at the `|`, or at the end."""
    at = text.find("|") if "|" in text else len(text)
    reply = running.client.complete(text.replace("|", ""), at, reply=True, timeout=PATIENCE)
    content: dict[str, Any] = reply["content"]
    assert content["status"] == "ok"
    return content


def matches(running: Kernel, text: str) -> list[str]:
    found: list[str] = asked(running, text)["matches"]
    return found


OFFERED = [
    ("%%agent\nWhy did @", "@sales @api_token @salt @threshold @Touchy @pd @ipyagent.yaml …"),
    ("%%agent\nWhy did @sa", "@sales @salt @data/sales.csv"),
    ("%%agent\nWhy did @SA", "@sales @salt @data/sales.csv"),
    ("%%agent\nWhy did @data/", "@data/sales.csv"),
    ("%%agent\nWhy did @data/s| drop?", "@data/sales.csv"),
    ("%%agent\nWhy did sal", "sales salt"),
    ("\n  %%agent --plan\nfirst line\nsal", "sales salt"),
    ("%%agent\nme@sal", ""),
    ("%%agent\n@../", ""),
    ("%%agent\n@.ssh/", ""),
    ("%%agent\n@/etc/", ""),
    ("%%agent\n@key", ""),
    ("%%agent\n@_priv", ""),
    ("%%agent\nimp", ""),
    ("%%agent\nfrom no", ""),
    ("%%agent\nsales.he", ""),
    ("%%agent\n%ti", ""),
    ("%%agent\n", ""),
    ("%%time\n\n%%agent\nWhy did @sa", "@sales @salt @data/sales.csv"),
    ("%%time\n%%agent --pl", "--plan"),
    ("%%agent --max-s", "--max-steps --max-seconds"),
    ("%%agent --pl| --json\nprompt", "--plan"),
    ("%%agent --plan --pl", ""),
    ("%%agent -a ", "explain plan review write reviewer plotter"),
    ("%%agent --agent rev", "review reviewer"),
    ("%%agent --agent=rev", "review reviewer"),
    ("%%agent rev", "review reviewer"),
    ("%%agent @", "@explain @plan @review @write @reviewer @plotter @sales …"),
    ("%%agent Why did @sa", "@sales @salt @data/sales.csv"),
    ("%%agent --plan Why did sal", "sales salt"),
    ("%%agent reviewer --pl", "--plan"),
    ("%agent Why did @sa", "@sales @salt @data/sales.csv"),
    ("%agent --plan Why did @sa", "@sales @salt @data/sales.csv"),
    ("%%agent --confirm ", "confirm-sensitive confirm-all yolo"),
    ("%%agent --confirm=y", "yolo"),
    ("%%agent --tools read_file,li", "list_files list_variables"),
    ("%%agent --tools list_files,li", "list_variables"),
    ("%%agent -m ", "offline/explorer scripted/"),
    ("%%agent -m scripted/s", "scripted/script.yaml"),
    ("%%agent --config ", "ipyagent.yaml script.yaml"),
    ("%%agent --out sal", ""),
    ("%agent sta", "status"),
    ("%agent session re", "resume"),
    ("%agent sto", "stop"),
    ("%agent approve a1b2 --b", "--background"),
    ("%%agent --plan --ba", "--background"),
    ("%agent freeze --v", "--verify"),
    ("%agent freeze --all --", "--verify --to"),
    ("%agent mcp ad", "add"),
    ("%agent api reg", "register"),
    ("%agent model off", "offline/explorer"),
    ("%agent config agent.max_s", "agent.max_steps agent.max_seconds"),
    ("x = 1\n%agent sta", "status"),
]


def test_what_fits_is_offered_and_nothing_else(running: Kernel) -> None:
    wrong = []
    for text, expected in OFFERED:
        found, wanted = matches(running, text), expected.split()
        if "…" in wanted:
            wanted, found = wanted[:-1], found[: len(wanted) - 1]
        if found != wanted:
            wrong.append((text, wanted, found))
    assert not wrong


def test_a_variable_is_told_by_type_and_size_and_its_own_code_is_not_run(running: Kernel) -> None:
    answer = asked(running, "%%agent\nWhy did @")
    entries = answer["metadata"]["_jupyter_types_experimental"]
    kinds = {each["text"]: each["type"] for each in entries}
    assert kinds["@sales"] == "DataFrame 18,204 × 2"
    assert kinds["@threshold"] == "float = 0.5"
    assert kinds["@salt"] == "Touchy"
    assert kinds["@notes.md"] == "file"
    assert "sk-a" not in kinds["@api_token"]
    assert not {"@key.pem", "@.env", "@data/with space.csv"} & set(kinds)
    assert (answer["cursor_start"], answer["cursor_end"]) == (16, 17)


def test_an_option_is_told_by_its_help(running: Kernel) -> None:
    [entry] = asked(running, "%%agent --max-st")["metadata"]["_jupyter_types_experimental"]
    assert entry["type"] == "at most N requests"


@pytest.mark.parametrize("text", ["impo", "%%time\nimpo", "%%agents\nimpo", "%%agen", "%agen"])
def test_other_cells_are_left_to_ipython(running: Kernel, text: str) -> None:
    assert {"import", "%%agent", "%agent"} & set(matches(running, text))


def test_sessions_are_offered_and_looking_for_them_begins_no_record(tmp_path: Path) -> None:
    with kernel(tmp_path) as started:
        assert matches(started, "%%agent -s ") == []
        assert not (tmp_path / ".ipyagent").exists()
        assert started.run("%agent session new quarterly").status == "ok"
        assert matches(started, "%%agent -s quart") == ["quarterly"]
        assert matches(started, "%agent session resume quart") == ["quarterly"]


def test_settings_that_cannot_be_read_leave_the_variables(tmp_path: Path) -> None:
    with kernel(tmp_path) as started:
        started.run("sales = [1]")
        (tmp_path / "ipyagent.yaml").write_text("agents: [")
        assert matches(started, "%%agent\n@sal") == ["@sales"]
        assert matches(started, "%%agent -a ") == ["explain", "plan", "review", "write"]
        assert started.run("pass").stderr == ""


SILENCE = """
from IPython.core.completer import provisionalcompleter, SimpleMatcherResult, context_matcher
from ipyagent import magic

def offered(found):
    @context_matcher(priority=2_000)
    def matcher(context):
        return SimpleMatcherResult(completions=found, matched_fragment="imp", suppress=True)

    completer = get_ipython().Completer
    theirs, completer.custom_matchers = completer.custom_matchers, [matcher]
    with provisionalcompleter():
        said = [each.text for each in completer.completions("imp", 3)]
    completer.custom_matchers = theirs
    return said

print(offered([]), offered(magic.Nothing()))
"""


def test_an_empty_list_would_let_the_other_matchers_speak(running: Kernel) -> None:
    assert running.run(SILENCE).stdout == "['import'] []\n"


MANY = """
import time
from IPython.core.completer import provisionalcompleter
for n in range(10_000):
    globals()[f"many_{n}"] = n
frames = {f"frame_{n}": sales for n in range(200)}
globals().update(frames)

def seconds(text):
    begun = time.thread_time()
    with provisionalcompleter():
        count = len(list(get_ipython().Completer.completions(text, len(text))))
    return time.thread_time() - begun, count

for text in ("%%agent\\n@", "%%agent\\nmany", "%%agent\\n@frame", "%%agent\\n@data/many/f"):
    seconds(text)
    took, counts = zip(*(seconds(text) for _ in range(8)))
    print(f"{min(took) * 1000:.1f}", max(counts))
"""


@pytest.mark.slow
def test_ten_thousand_variables_and_files_take_no_time(tmp_path: Path) -> None:
    folder = tmp_path / "data/many"
    folder.mkdir(parents=True)
    for n in range(10_000):
        (folder / f"f{n}.csv").touch()
    with kernel(tmp_path) as started:
        started.run("import pandas as pd; sales = pd.DataFrame({'a': [1]})")
        lines = started.run(MANY).stdout.split("\n")[:-1]
    assert [int(line.split()[1]) for line in lines] == [200, 100, 100, 100]
    # Its own time, without what else the machine does: 50 ms; to describe all would be seconds.
    assert max(float(line.split()[0]) for line in lines) < 500, lines


BEHIND = """
from IPython.core.completer import provisionalcompleter
from ipyagent.magic import completions

def found(text, entries, seconds=60):
    completions.WALKING = entries, seconds, seconds
    with provisionalcompleter():
        return [c.text for c in get_ipython().Completer.completions(text, len(text))]

print(completions.WALKING[0] >= 5_000 * 10)
print(found("%%agent\\n@row29_", 5_000))
print(found("%%agent\\n@row29_", 100_000))
print(found("%%agent\\n@d29", 300))
"""


def test_a_name_behind_the_first_thousands_of_files_is_found(tmp_path: Path) -> None:
    for number in range(30):
        folder = tmp_path / f"d{number:02}"
        folder.mkdir()
        for n in range(200):
            (folder / f"{n}.txt").touch()
    (tmp_path / "d29" / "row29_a.txt").touch()
    with kernel(tmp_path) as started:
        enough, few, all_of_it, typed = started.run(BEHIND).stdout.splitlines()
    assert (enough, few, all_of_it) == ("True", "[]", "['@d29/row29_a.txt']")
    assert typed.count("'@d29/") == 100


TERMINAL = """
from IPython.terminal.interactiveshell import TerminalInteractiveShell
from IPython.terminal.ptutils import IPythonPTCompleter
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

shell = TerminalInteractiveShell.instance(simple_prompt=True)
before = list(shell.Completer.custom_matchers)
shell.run_line_magic("load_ext", "ipyagent")
shell.user_ns["sales"] = [1, 2]
completer = IPythonPTCompleter(shell=shell)
for text in ("%%agent\\nlook at @sa", "%%agent --max-us", "%%agent\\nimp"):
    found = completer.get_completions(Document(text), CompleteEvent())
    print([(each.text, each.start_position, each.display_meta_text) for each in found])
shell.run_line_magic("unload_ext", "ipyagent")
print(shell.Completer.custom_matchers == before)
"""


def test_it_works_in_terminal_ipython_and_is_gone_after_unloading(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TERMINAL], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    variable, option, prose, gone = done.stdout.splitlines()
    assert re.search(r"\('@sales', -3, 'list, 2 items", variable)
    assert re.search(r"\('--max-usd', -8, 'at most about X US dollars'", option)
    assert (prose, gone) == ("[]", "True")
