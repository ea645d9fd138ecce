"""What announces actions without a call, and what does not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import YES, Lab, call
from ipyagent.agent.loop import NOTHING_PENDING
from ipyagent.agent.prompts import CALL_NOW
from ipyagent.agent.signs import announces_actions
from ipyagent.schema import StepStarted, StopReason

TOOLS = {"list_files", "read_file", "write_file", "edit_file", "delete_file", "run_python", "query"}

PHANTOMS = [
    # Named and not called
    "I will now call delete_file",
    "I'll use run_python to plot it.",
    "Let me call read_file on sales.csv first.",
    "Calling write_file with the new text.",
    "First read_file, then edit_file.",
    "1. read_file sales.csv\n2. edit_file sales.csv",
    "- I will run_python the numbers: run_python next.",
    "Voy a usar delete_file para borrar los datos.",
    "Ahora ejecuto run_python.",
    "Llamaré a write_file.",
    "我将调用 delete_file。",
    "接下来调用read_file读取文件。",
    # A plan in words
    "# Plan\n1. load",
    "## Plan:\n\n1. Load the data\n2. Plot it",
    "**Plan**\n1) Load\n2) Plot",
    "Plan:\n1. load, 2. plot",
    "Plan: 1. load, 2. plot",
    "Here is my plan:\n1. Load sales.csv\n2. Remove the empty rows",
    "Proposed plan\n\nStep 1: load\nStep 2: delete",
    "Plan propuesto:\n1. Cargar los datos\n2. Borrar los vacíos",
    "**Plan de acción**\nHaré lo siguiente.\n1. Cargar\n2. Borrar",
    "### Plan propuesto\nPaso 1: cargar\nPaso 2: borrar",
    "## Mein Plan\n1. Daten laden",
    "Voici le plan :\n1. Charger les données",
    "计划:\n1. 加载数据\n2. 删除空行",
    "## 执行计划\n1、加载数据",
    # A request to agree
    "I can delete the three files. Reply yes to run this.",
    'Reply "confirm" to proceed.',
    "Please confirm to continue.",
    "Responde confirmo para ejecutar.",
    "Responde «sí» para continuar.",
    "Confirma para ejecutar el plan.",
    "请回复确认以执行。",
    "请确认后我将执行。",
]

ANSWERS = [
    "",
    "Forty-two.",
    "Paso 1: abre la terminal",
    "We run every step twice",
    "Step 1: open the terminal. Step 2: type make.",
    "Revenue fell by 12 % in Q3; see the plot.",
    "The plan of 2023 was not met: sales are 4 % below it.",
    "Our planning step takes 3 s, and running it twice is safe.",
    "To install it:\n1. Open a terminal\n2. Run `pip install ipyagent`",
    "## Steps\n1. Open your terminal\n2. Run `make`",
    "Steps:\n1. Click Kernel\n2. Click Restart",
    "## Pasos\n1. Abre la terminal\n2. Ejecuta `make`",
    "Schritte:\n1. Öffnen Sie das Terminal",
    "步骤：\n1. 打开终端\n2. 运行 make",
    "## Next steps\n1. Compare with 2022\n2. Ask the sales team",
    "## Results\n1. North: 12\n2. South: 7",
    "I found three things:\n1. Two columns are empty\n2. Dates are text\n3. One duplicate",
    "Would you like me to plot it as well?",
    "Do you want the totals by region or by month?",
    "Which of the two files do you mean?",
    "The function is called `delete_file` in this version.",
    'The error says "delete_file is not allowed".',
    "> I will call delete_file\n\nThat was the message that you quoted.",
    "```python\nrun_python('x')\nread_file('y')\n```\nThat is how to do it.",
    "You can call read_file yourself.",
    "I can use read_file to look into it.",
    "I cannot call delete_file here.",
    "No: delete_file is switched off.",
    "I did not call delete_file, since nothing was to be deleted.",
    "The tool edit_file replaces a text that stands in a file once.",
    "Tools: list_files, read_file, write_file and run_python.",
    "- read_file: reads a file\n- write_file: writes one",
    "Did you mean read_file?",
    "See my_read_file.py and read_file.md for that.",
    "I used run_python earlier in this session.",
    "The query took 3 s, and I will explain the query now.",
    "Puedo usar read_file para eso.",
    "No voy a usar delete_file.",
    "La herramienta delete_file está desactivada.",
    "Ya usé run_python en la celda anterior.",
    "Los pasos del proceso se repiten cada día.",
    "Das Werkzeug edit_file ersetzt Text.",
    "Ich kann read_file verwenden.",
    "Ich habe run_python bereits aufgerufen.",
    "Der Plan wurde um 4 % verfehlt.",
    "J'ai déjà utilisé run_python.",
    "Je ne vais pas appeler delete_file.",
    "工具 read_file 用于读取文件。",
    "我没有调用 delete_file。",
    "计划完成率为 96%。",
    "The server replies yes when it is up.",
    "When the installer asks, type yes to continue.",
    "Type yes at the prompt to start.",
    "The survey asks to answer yes or no.",
    "Customers who say ok are counted twice.",
    "He confirmed the order on Monday.",
    # A question waits for its answer, whatever it asks for.
    "Shall I proceed?",
    "¿Procedo?",
    "是否继续？",
]


@pytest.mark.spec("P29", "D22")
@pytest.mark.parametrize("text", PHANTOMS)
def test_what_announces_actions_is_seen(text: str) -> None:
    assert announces_actions(text, TOOLS, set())
    assert not announces_actions(text, set(), set())  # without tools there is nothing to call


@pytest.mark.spec("P29", "D22")
@pytest.mark.parametrize("text", ANSWERS)
def test_what_explains_asks_or_reports_is_an_answer(text: str) -> None:
    assert not announces_actions(text, TOOLS, set())


def test_a_tool_that_was_called_may_be_named() -> None:
    said = "I will use run_python again if you wish; run_python gave 42."
    assert announces_actions("As announced, I will use run_python.", TOOLS, set())
    assert not announces_actions(said, TOOLS, {"run_python"})


def test_what_the_product_itself_says_is_no_announcement() -> None:
    """No false alarm in the answers of the offline model and in the README's."""
    root = Path(__file__).parents[2]
    readme = [p for p in (root / "README.md").read_text().split("\n\n") if "%%agent" not in p]
    room = root / "src/ipyagent/explorer"
    sources = [*room.rglob("*.py"), room / "verbs.toml"]
    told = [
        t for path in sources for t in re.findall(r'"((?:[^"\\\n]|\\.){20,})"', path.read_text())
    ]
    assert len(readme) > 10
    assert len(told) > 100
    assert [text for text in [*readme, *told] if announces_actions(text, TOOLS, set())] == []


def test_a_long_text_costs_no_time() -> None:
    for text in ("a " * 200_000, "1. x\n" * 50_000, "*" * 200_000, "reply " * 50_000, "`" * 99_999):
        announces_actions(text, TOOLS, set())


# -- in a run


def nudges(lab: Lab) -> list[str]:
    return [e.nudge for e in lab.watcher.events if isinstance(e, StepStarted) and e.nudge]


@pytest.mark.spec("P29")
def test_an_announcement_is_answered_by_a_reminder(lab: Lab) -> None:
    run = lab.run(["I will now call list_files", {"calls": [call("list_files")]}, "None there."])
    assert nudges(lab) == [CALL_NOW]
    assert (run.output, run.stop_reason, run.notes) == ("None there.", StopReason.FINISHED, ())
    assert [e.call.name for e in run.executions] == ["list_files"]


@pytest.mark.spec("P29", "D22")
def test_a_second_announcement_is_the_answer_with_a_note(lab: Lab) -> None:
    run = lab.run(["# Plan\n1. load", "# Plan\n1. load it", "never asked"])
    assert nudges(lab) == [CALL_NOW]
    assert (run.output, run.notes) == ("# Plan\n1. load it", (NOTHING_PENDING,))
    assert run.stop_reason is StopReason.FINISHED
    assert len(lab.client.requests) == 2


@pytest.mark.spec("P29")
def test_an_ordinary_answer_costs_no_further_request(lab: Lab) -> None:
    run = lab.run(["Paso 1: abre la terminal", "never asked"])
    assert (len(run.steps), run.notes, nudges(lab)) == (1, (), [])


def test_one_reminder_a_run_also_after_calls(lab: Lab) -> None:
    write = {"calls": [call("write_file", path="x", content="y")]}
    replies = ["I will call write_file", write, "Reply yes to continue.", "never asked"]
    run = lab.run(replies, answer=YES)
    assert nudges(lab) == [CALL_NOW]
    assert (run.output, run.notes) == ("Reply yes to continue.", (NOTHING_PENDING,))


def test_a_spent_budget_is_not_exceeded_for_a_reminder(lab: Lab) -> None:
    run = lab.run(["I will call list_files", "never asked"], max_steps=1)
    assert (len(run.steps), run.notes) == (1, (NOTHING_PENDING,))


def test_a_long_reply_announces_something_at_its_beginning_or_its_end() -> None:
    plan, tools = "I will now call write_file to save it.", {"write_file"}
    report = "The North lost a third of its revenue. " * 30_000
    assert announces_actions(f"{report}\n{plan}", tools, set())
    assert announces_actions(f"{plan}\n{report}", tools, set())
    assert not announces_actions(report, tools, set())
    fenced = f"```\n{report}\n```\n"
    assert announces_actions(f"{fenced}{plan}\n{fenced}", tools, set())
