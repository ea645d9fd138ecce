"""What a running call puts out is told as it comes, and kept nowhere."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from harness import YES, Lab, call
from ipyagent.agent.tool_context import CHARS, LINES, last_lines
from ipyagent.kernel.outputs import RECENT, Outputs
from ipyagent.redaction import HIDDEN, Redactor
from ipyagent.schema import Event, Run, ToolOutput
from patience import PATIENCE

KNOWN = "correct-horse-battery"
KEY = "sk-proj-" + "aB3dE5fG7h" * 4
PEM = "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG\n" * 300
PEM += "-----END PRIVATE KEY-----\n"


def python(code: str) -> list[Any]:
    return [{"calls": [call("run_python", code=code)]}, "Done."]


def told(lab: Lab, replies: list[Any], until: Callable[[str], bool], **more: Any) -> list[str]:
    """The lines that were told; code waits for `seen` until some fit."""
    seen, texts = threading.Event(), []
    lab.variables["seen"] = seen

    def hear(event: Event) -> None:
        if isinstance(event, ToolOutput):
            texts.append(event.text)
            if until(event.text):
                seen.set()
                (lab.environment.workspace.root / "seen").touch()

    more.setdefault("confirm_mode", "yolo")
    run = lab.run(replies, heard=hear, **more)
    assert isinstance(run, Run)
    assert seen.is_set(), run.results
    return texts


def test_what_code_prints_is_told_while_it_runs(lab: Lab) -> None:
    code = f"print('epoch 0')\nprint('epoch 1')\nassert seen.wait({PATIENCE})\nprint('epoch 2')"
    texts = told(lab, python(code), lambda text: text == "epoch 0\nepoch 1")
    assert texts[-1] in ("epoch 0\nepoch 1", "epoch 0\nepoch 1\nepoch 2")
    (result,) = lab.session.runs[-1].results
    assert result.output == "epoch 0\nepoch 1\nepoch 2"


def test_the_journal_keeps_none_of_it(lab: Lab) -> None:
    told(lab, python(f"print('epoch 0')\nseen.wait({PATIENCE})"), bool)
    (saved,) = lab.session.journal.runs(lab.session.id)
    assert saved.model_dump_json() == lab.session.runs[-1].model_dump_json()


def test_a_display_is_told_in_words(lab: Lab) -> None:
    outputs = Outputs()
    outputs.write("stdout", "before\n")
    outputs.show({"text/plain": "a table"})
    outputs.write("stdout", "after\n")
    assert last_lines(outputs.recent_text() or "", Redactor()).split() == [
        *("before", "a", "table", "after")
    ]
    assert outputs.recent_text() is None


SHELL = "echo one; until [ -e seen ]; do sleep 0.05; done"
SCRIPT = """\
import pathlib, time
print("one", flush=True)
while not pathlib.Path("seen").exists():
    time.sleep(0.05)
"""


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("run_shell", {"command": SHELL}),
        ("python_script", {"action": "run", "content": SCRIPT}),
    ],
)
def test_what_a_command_prints_is_told_while_it_runs(
    lab: Lab, tool: str, arguments: dict[str, Any]
) -> None:
    replies = [{"calls": [call(tool, **arguments)]}, "Done."]
    settings = {"tools": {"shell": True}}
    texts = told(lab, replies, lambda text: text == "one", answer=YES, settings=settings)
    assert set(texts) == {"one"}


def test_a_progress_bar_is_one_line() -> None:
    bar = "".join(f"\r{done:3}%|{'#' * (done // 10):10}| {done}/100" for done in range(101))
    assert last_lines(f"begun\n\x1b[32m{bar}", Redactor()) == "begun\n100%|##########| 100/100"


def test_a_progress_bar_that_is_long_in_memory_is_still_drawn() -> None:
    bar = "".join(f"\r{done:6}/100000 it" for done in range(100_001))
    assert last_lines(bar[-RECENT:], Redactor()) == "100000/100000 it"


def test_only_the_last_lines_are_told() -> None:
    text = "".join(f"line {number}\n" for number in range(100_000))
    shown = last_lines(text[-RECENT:], Redactor()).split("\n")
    assert shown == [f"line {number}" for number in range(100_000 - LINES, 100_000)]
    assert len(last_lines("x " * 50_000, Redactor())) <= CHARS


@pytest.mark.parametrize("secret", [KNOWN, KEY, PEM])
def test_no_part_of_a_secret_is_told_however_far_it_has_come(secret: str) -> None:
    redactor = Redactor([KNOWN])
    before = "key: "
    for end in [*range(12, 40), len(secret) // 2, len(secret)]:
        for start in ("", "word " * 30_000, "line\n" * 30_000):
            shown = last_lines((start + before + secret[:end])[-RECENT:], redactor)
            assert (secret[28:32] if secret == PEM else secret[:end]) not in shown
    assert last_lines(f"{before}{secret} end\n", redactor).endswith(" end")


@pytest.mark.parametrize("noise", ["\x1b[0m" * 20_000, "\r 10%|" * 20_000])
def test_no_end_of_a_secret_is_told_where_the_text_is_cut(noise: str) -> None:
    text = PEM + noise
    assert "MIIE" not in last_lines(text[-(len(noise) + 200) :][-RECENT:], Redactor())


def test_a_secret_that_code_has_made_itself_is_hidden(lab: Lab) -> None:
    code = (
        "api_key = 'Zebra' + 'Quagga' + '19x'\n"
        f"print('my', api_key, 'it is')\nassert seen.wait({PATIENCE})"
    )
    texts = told(lab, python(code), lambda text: text.endswith("is"))
    assert set(texts) == {f"my {HIDDEN} it is"}


def test_code_that_prints_without_end_sends_few_messages_and_keeps_little(lab: Lab) -> None:
    code = (
        "import time\nuntil = time.monotonic() + 1.5\n"
        "while time.monotonic() < until or not seen.is_set():\n    print('x' * 80)"
    )
    begun = time.monotonic()
    texts = told(lab, python(code), lambda text: True)
    assert len(texts) <= 1 + 30 * (time.monotonic() - begun)
    assert max(map(len, texts)) <= CHARS
    assert re.fullmatch(r"[x\n]+", texts[0])
