"""`%%agent` cells in a real kernel."""

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernels import Kernel, Message, Page, kernel, python, script as write_script

pytestmark = pytest.mark.kernel


@pytest.fixture
def script(folder: Path, request: pytest.FixtureRequest) -> Any:
    """Write a script of replies, one of several, and return the option that plays it."""
    names = (f"{abs(hash(request.node.name))}-{n}" for n in itertools.count())
    return lambda *replies: write_script(folder, *replies, name=next(names))


@pytest.fixture
def waits_shortly(shared: Kernel) -> Iterator[None]:
    """No page shows the card, and the run need not wait long to know it."""
    handshake = "__import__('ipyagent.ui.card').ui.card.HANDSHAKE"
    before = shared.value(handshake)
    shared.run(f"{handshake} = 0.1")
    yield
    shared.run(f"{handshake} = {before}")


def test_an_agent_cell_answers_and_leaves_its_static_mirror(shared: Kernel, script: Any) -> None:
    reply = shared.run(f"%%agent {script('Hello **there**.')}\nSay hello.", page=Page(shared))
    assert reply.status == "ok"
    assert reply.run["steps"][0]["message"]["content"][0]["text"] == "Hello **there**."
    (mirror,) = reply.of("update_display_data")
    assert {"text/html", "text/plain"} < set(mirror["data"])
    assert "<script" not in mirror["data"]["text/html"]
    assert shared.value("__import__('ipyagent').last.output") == "'Hello **there**.'"


def test_a_cell_asks_for_an_answer_of_a_type_by_its_name(shared: Kernel, script: Any) -> None:
    shared.run("from dataclasses import dataclass\n@dataclass\nclass Point:\n    x: int")
    option = script('{"x": 3}', '{"x": 4}')
    reply = shared.run(f"%%agent {option} --result Point\nWhere?", page=Page(shared))
    assert shared.value("__import__('ipyagent').last.value") == "Point(x=3)"
    (mirror,) = reply.of("update_display_data")
    assert "Point" in mirror["data"]["text/html"]
    assert "Point(x=3)" in mirror["data"]["text/plain"]
    shared.run(f"%%agent {option} --result Piont\nWhere?")
    assert "there is no 'Piont'" in shared.value("__import__('ipyagent').last.error")


def test_a_card_is_opened_with_few_bytes(shared: Kernel, script: Any) -> None:
    """The code that draws cards is 400 kB; widgets are sent with their code."""
    page, opened = Page(shared), list[Message]()

    def listen(message: Message) -> None:
        page(message)
        if message["msg_type"] == "comm_open":
            opened.append(message["content"])

    for _ in range(2):
        opened.clear()
        shared.run(f"%%agent {script('Hello.')}\nSay hello.", page=listen)
        assert any("_esm" in each["data"]["state"] for each in opened)
        assert len(json.dumps(opened)) < 10_000


def test_the_history_has_the_cell_as_it_was_written(shared: Kernel, script: Any) -> None:
    cell = f"%%agent {script('Hello.')}\n'Say' \"hello\"\u2028 to {{x}}."
    shared.run(f"\n{cell}\n", page=Page(shared))
    assert shared.value("get_ipython().history_manager.input_hist_raw[-2].strip()") == repr(cell)
    assert cell in shared.run("%history -n -l 2").stdout


def test_a_click_during_the_cell_lets_python_run_on_the_main_thread(
    shared: Kernel, script: Any
) -> None:
    code = "import threading\nmade = threading.current_thread() is threading.main_thread()"
    page = Page(shared)
    reply = shared.run(f"%%agent {script(python(code), 'Done.')}\nMake it.", page=page)
    assert reply.status == "ok"
    assert reply.prompts == []
    assert reply.executions[0]["decided_by"] == "button"
    assert shared.value("made") == "True"
    assert page.seqs == sorted(page.seqs)


@pytest.mark.spec("P05", "P23")
def test_a_second_click_a_click_in_another_tab_and_a_replay_do_nothing(
    shared: Kernel, script: Any
) -> None:
    shared.run("ran = []")
    page, asked = Page(shared, decision=""), []

    def click_wildly(page: Page, moment: Message) -> None:
        if moment["type"] != "asked":
            return
        asked.append(moment["approval_id"])
        for decision in ("approve", "approve", "deny"):
            for approval_id in (asked[0], asked[-1], "a999"):
                page.decide(approval_id, decision)

    page.on_moment = click_wildly
    replies = [python("ran.append(1)"), python("ran.append(2)"), "Done."]
    reply = shared.run(f"%%agent {script(*replies)}\nBegin.", page=page)
    assert len(set(asked)) == 2
    assert [each["decision"] for each in reply.executions] == ["approved"] * 2
    assert shared.value("ran") == "[1, 2]"


@pytest.mark.usefixtures("waits_shortly")
def test_without_a_page_the_question_goes_to_input(shared: Kernel, script: Any) -> None:
    asks = f"%%agent {script(python('typed = 5'), 'Done.')}\nBegin."
    reply = shared.run(asks, answers=["maybe", "yes"])
    assert len(reply.prompts) == 2
    assert "typed = 5" in reply.stdout
    assert shared.value("typed") == "5"
    reply = shared.run(asks.replace("typed", "other"), answers=["n too risky"])
    assert reply.executions[0]["reason"] == "too risky"


@pytest.mark.spec("P35")
def test_code_that_a_terminal_would_hide_is_refused_without_asking(
    shared: Kernel, script: Any
) -> None:
    hidden = "evil_ran = 1\rprint('The mean of the price column, nothing else at all')"
    swallowed = "# \x1b]0;\nevil_ran = 1\n#\x07 a harmless comment\nprint('hi')"
    reply = shared.run(
        f"%%agent {script(python(hidden), python(swallowed), 'I see.')}\nBegin.", answers=[]
    )
    assert reply.status == "ok"
    assert reply.prompts == []
    assert shared.value("'evil_ran' in globals()") == "False"
    results = [each["output"] for each in reply.results]
    assert "U+000D" in results[0]
    assert "U+001B" in results[1]


@pytest.mark.spec("A47", "D27")
def test_headless_a_sensitive_call_is_denied_at_once_with_the_remedy(
    shared: Kernel, script: Any
) -> None:
    reply = shared.run(f"%%agent {script(python('headless = 1'), 'I could not.')}\nBegin.")
    assert reply.status == "ok"
    execution = reply.executions[0]
    assert execution["status"] == "denied"
    assert "--confirm yolo" in execution["result"]["output"]
    assert shared.value("'headless' in globals()") == "False"


@pytest.mark.parametrize(
    "cell",
    [
        "%%time\n%%agent {options}\nBegin.",
        "get_ipython().run_cell_magic('agent', '{options}', 'Begin.')",
        "%autoawait off\n\nget_ipython().run_cell('''%%agent {options}\nBegin.''')\n%autoawait on",
    ],
)
def test_the_agent_works_in_cells_that_cannot_await(shared: Kernel, script: Any, cell: str) -> None:
    options = script(python("import os; nested = os.getpid()"), "Done.") + " --confirm yolo"
    reply = shared.run("nested = 0\n" if cell.startswith("get") else "nested = 0")
    reply = shared.run(cell.format(options=options), page=Page(shared))
    assert reply.run["steps"][-1]["message"]["content"][0]["text"] == "Done."
    assert shared.value("nested == __import__('os').getpid()") == "True"


@pytest.mark.usefixtures("waits_shortly")
def test_a_nested_cell_asks_by_input_when_no_click_can_arrive(shared: Kernel, script: Any) -> None:
    options = script(python("asked_nested = 1"), "Done.")
    reply = shared.run(f"%%time\n%%agent {options}\nBegin.", page=Page(shared), answers=["y"])
    assert len(reply.prompts) == 1
    assert shared.value("asked_nested") == "1"


def test_a_finished_run_leaves_no_widget_behind(shared: Kernel, script: Any) -> None:
    count = "len(__import__('ipywidgets').widgets.widget._instances)"
    hello = f"%%agent {script('Hello.')}\nBegin."
    shared.run(hello, page=Page(shared))
    before = shared.value(count)
    reply = shared.run(hello, page=Page(shared))
    assert len(reply.of("comm_open")) == len(reply.of("comm_close")) > 0
    assert shared.value(count) == before


def test_queued_cells_keep_their_order(shared: Kernel, script: Any) -> None:
    shared.run("order = []")
    option = script(python("order.append('agent')"), "Done.")
    page = Page(shared)
    first = shared.client.execute(f"%%agent {option}\nBegin.", allow_stdin=True)
    shared.client.execute("order.append('next')", allow_stdin=False)
    shared.finish(first, page=page)
    assert shared.value("order") == "['agent', 'next']"


SLOW = [{"text": "word " * 400, "delay": 0.02}]
PHASES = {
    "streaming": (SLOW, "streamed"),
    "waiting": ([python("pass"), "Done."], "asked"),
    "sleeping": ([python("import time; time.sleep(60)"), "Done."], "running"),
    "looping": ([python("while True: pass"), "Done."], "running"),
    "swallowing": (
        [python("import time\ntry:\n  time.sleep(60)\nexcept BaseException: pass"), "Done."],
        "running",
    ),
    "awaiting": ([python("import asyncio; await asyncio.sleep(60)"), "Done."], "running"),
    "gathering": (
        [python("import asyncio; await asyncio.gather(asyncio.sleep(60))"), "Done."],
        "running",
    ),
    "looping after an await": (
        [python("import asyncio\nawait asyncio.sleep(0)\nwhile True: pass"), "Done."],
        "running",
    ),
    "retrying": ([{"error": {"kind": "unavailable", "message": "Busy."}}] * 3, "retrying"),
}


BLOCKING = {"sleeping", "looping", "swallowing", "looping after an await"}


@pytest.mark.parametrize(
    ("phase", "how"),
    # While a tool blocks the main thread, a click needs a subshell: see the browser tests.
    [
        (p, how)
        for p in PHASES
        for how in ("signal", "button")
        if how == "signal" or p not in BLOCKING
    ],
)
def test_a_stop_in_any_phase_returns_at_once_and_the_next_prompt_works(
    shared: Kernel, script: Any, phase: str, how: str
) -> None:
    replies, when = PHASES[phase]
    page = Page(shared, decision="" if phase == "waiting" else "approve")
    stopped = []

    def stop(page: Page, moment: Message) -> None:
        if moment["type"] == when and not stopped:
            stopped.append(moment)
            if how == "signal":
                shared.interrupt()
            else:
                page.say({"type": "stop"})

    page.on_moment = stop
    reply = shared.run(f"%%agent {script(*replies)}\nBegin.", page=page)
    assert reply.status == "error"
    assert reply.content["ename"] == "AgentStopped"
    assert (reply.of("error"), reply.stderr) == ([], "")  # the card says it
    assert reply.run["status"] == "cancelled"
    after = shared.run(f"%%agent {script('Back.')}\nAnd now?", page=Page(shared))
    assert after.run["status"] == "done"
    handler = "__import__('signal').getsignal(2) is __import__('signal').default_int_handler"
    assert shared.value(handler) == "True"


def test_the_namespace_is_live_and_the_agents_code_leaves_no_history(
    shared: Kernel, script: Any
) -> None:
    shared.run("basket = ['apple']")
    script_option = script(python("basket.append('pear'); len(basket)"), "Two.")
    before = int(shared.value("get_ipython().execution_count"))
    shared.run(f"%%agent {script_option} --confirm yolo\nAdd a pear to @basket.")
    assert shared.value("basket") == "['apple', 'pear']"
    assert int(shared.value("get_ipython().execution_count")) == before + 3
    assert "basket" in shared.value("__import__('ipyagent').last.context")


@pytest.mark.parametrize(("agent", "told"), [(False, []), (True, ["busy", "idle"])])
def test_a_widget_s_message_during_an_agent_cell_gets_its_statuses(
    shared: Kernel, script: Any, agent: bool, told: list[str]
) -> None:
    """Without them ipywidgets holds back further input; a plain async cell shows the problem."""
    code = "import ipywidgets\nfield = ipywidgets.Text()\nprint(field.comm.comm_id)"
    comm = shared.run(code).stdout.strip()
    typed, statuses = [], []

    def watch(message: Message) -> None:
        page(message)
        if typed and message["parent_header"].get("msg_id") == typed[0]:
            statuses.append(message["content"].get("execution_state"))
        begun = "running" in str(message["content"]) or message["msg_type"] == "stream"
        if begun and not typed:
            state = {"method": "update", "state": {"value": "h"}, "buffer_paths": []}
            typed.append(shared.send("comm_msg", {"comm_id": comm, "data": state}))

    page = Page(shared)
    waiting = (
        "import asyncio\nfor _ in range(200):\n  await asyncio.sleep(0.05)\n  if field.value: break"
    )
    cell = f"%%agent {script(python(waiting), 'Done.')} --confirm yolo\nBegin."
    reply = shared.run(cell if agent else "print('go')\n" + waiting, page=watch)
    assert reply.status == "ok"
    assert shared.value("field.value") == "'h'"
    assert [s for s in statuses if s] == told


def test_a_users_tool_is_offered_and_can_be_redefined(shared: Kernel, script: Any) -> None:
    define = (
        "from ipyagent import tool\n@tool\ndef greet(name: str) -> str:\n  'Greet.'\n  return {}"
    )
    option = script({"calls": [{"name": "greet", "arguments": {"name": "Ada"}}]}, "Done.")
    for greeting in ("'Hello ' + name", "'Bye ' + name"):
        assert shared.run(define.format(greeting)).status == "ok"
        reply = shared.run(f"%%agent {option}\nGreet Ada.")
    assert reply.results[0]["output"] == "Bye Ada"
    shared.run("del greet")


def test_the_options_out_json_and_raise(shared: Kernel, script: Any) -> None:
    option = script("Done.")
    shared.run(f"%%agent {option} -o kept\nBegin.")
    assert shared.value("kept.output") == "'Done.'"
    reply = shared.run(f"%%agent {option} --json\nBegin.")
    assert json.loads(reply.stdout)["output"] == "Done."
    assert reply.of("display_data") == []
    failing = script({"error": {"kind": "refused", "message": "No."}})
    assert shared.run(f"%%agent {failing}\nBegin.").status == "ok"
    raised = shared.run(f"%%agent {failing} --raise\nBegin.")
    assert (raised.status, raised.content["ename"]) == ("error", "RunFailedError")


PROMPTS_ON_THE_LINE = {
    "%%agent {} How many rows has x?": "How many rows has x?",
    "%%agent {} What's {x}?\n\nIs it $HOME?": "What's {x}?\n\nIs it $HOME?",
    "%%agent {}\nHow many?": "How many?",
    "%agent {} How many rows has sales_q1.csv?": "How many rows has sales_q1.csv?",
    "q = 1\n%agent {} What's {q}, # or \\ $HOME?\nq": "What's {q}, # or \\ $HOME?",
    "for q in range(1):\n    %agent {} Is x odd?": "Is x odd?",
    "%%time\n%%agent {} Is x odd?": "Is x odd?",
}


@pytest.mark.spec("H30")
def test_the_prompt_may_stand_on_the_magic_s_own_line(shared: Kernel, script: Any) -> None:
    option, wrong = script("Three."), []
    for cell, prompt in PROMPTS_ON_THE_LINE.items():
        reply = shared.run(cell.replace("{}", option), page=Page(shared))
        if (reply.status, reply.run["prompt"]) != ("ok", prompt):
            wrong.append((cell, reply))
    assert not wrong
    # The page's click arrives, so the line was awaited.
    option = script(python("clicked = 1"), "Done.")
    reply = shared.run(f"%agent {option} Make it.", page=Page(shared))
    assert reply.executions[0]["decided_by"] == "button"


BAD_INPUT = [
    ("%%agent --modle x\nBegin.", "--modle"),
    ("%agent --modle x What is this?", "--modle"),
    ("%%agent What is this? --modle x\nBegin.", "--modle"),
    ("%%agent revie\nBegin.", "did you mean review?"),
    ("%%agent --confirm maybe\nBegin.", "yolo"),
    ("%%agent --tools fly\nBegin.", "read_file"),
    ("%%agent --max-steps many\nBegin.", "max_steps"),
    ("%%agent -m scripted/none.yaml\nBegin.", "none.yaml"),
    ("%%agent -o 1x\nBegin.", "--out"),
    ("%%agent\n   ", "empty"),
]


@pytest.mark.spec("P19", "H07", "A52", "A11")
def test_bad_input_is_one_clear_card_and_no_traceback(shared: Kernel) -> None:
    wrong = []
    for cell, says in BAD_INPUT:
        reply = shared.run(cell, page=Page(shared))
        outcome = shared.value("str(__import__('ipyagent').last.outcome)")
        is_clear = says in reply.run["error"] and "Traceback" not in str(reply.messages)
        is_clear = is_clear and len(reply.of("display_data")) == 1 and not reply.of("comm_open")
        if (reply.status, outcome, is_clear) != ("ok", "'failed'", True):
            wrong.append((cell, reply))
    assert not wrong


@pytest.mark.spec("P26", "P22")
def test_an_agent_in_the_code_of_another_answers_and_a_cell_in_it_is_refused(
    shared: Kernel, script: Any
) -> None:
    inner = script("Inner.")
    agent = f"import ipyagent\nprint(ipyagent.Agent({inner.removeprefix('-m ')!r}).ask('Nested.'))"
    cell = f"get_ipython().run_cell_magic('agent', {inner!r}, 'Nested.')"
    replies = script(python(agent), python(cell), "Done.")
    reply = shared.run(f"%%agent {replies} --confirm yolo\nBegin.")
    first, second = reply.results
    assert first["success"]
    assert "Inner." in first["output"]
    assert "already running" in json.dumps(second)


def test_the_line_magic_shows_help_and_status(shared: Kernel, script: Any) -> None:
    shared.run(f"%%agent {script('Done.')}\nCount me.")
    overview, whole = shared.run("%agent").stdout, shared.run("%agent help").stdout
    assert len(overview.splitlines()) < 30
    for text in ("--session NAME", "%agent undo", "%agent help", "workspace"):
        assert text in overview
    assert set(re.findall(r"%agent \w+|--[a-z-]+", overview)) < set(
        re.findall(r"%agent \w+|--[a-z-]+", whole)
    )
    assert "%agent tools" in whole
    assert "workspace" in shared.run("%agent status").stdout
    tools = shared.run("%agent tools").stdout
    assert "* run_python" in tools
    assert "Delete a file. (disabled: workspace.allow_delete)" in tools
    assert "Count me." in shared.run("%agent runs").stdout
    assert "did you mean tools" in shared.run("%agent tool").stdout
    assert "no call waits" in shared.run("%agent approve").stdout
    assert "no call waits" in shared.run("%agent deny a99").stdout
    shared.run(f"%agent model {script('From the session.').removeprefix('-m ')}")
    assert shared.run("%%agent\nBegin.").run["steps"][0]["message"]["content"][0]["text"] == (
        "From the session."
    )


def test_an_agent_object_works_in_a_cell_too(shared: Kernel, script: Any) -> None:
    model = script("Sync.").removeprefix("-m ")
    code = f"from ipyagent import Agent\nagent = Agent({model!r})\n"
    reply = shared.run(code + "print(agent.ask('Begin.').output)")
    assert reply.stdout == "Sync.\n"
    assert reply.run["status"] == "done"
    reply = shared.run(code + "print((await agent.aask('Begin.')).output)")
    assert reply.stdout == "Sync.\n"


def test_the_user_chooses_one_of_several_keys_once_and_headless_the_order_decides(
    tmp_path: Path,
) -> None:
    # A proxy that is not there: nothing of this leaves the machine.
    dead = dict.fromkeys(("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    keys = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY"), "not-a-key")
    with kernel(tmp_path, IPYAGENT_LLM__RETRY__MAX_RETRIES="0", **dead, **keys) as started:
        headless = started.run("%%agent --max-seconds 5\nBegin.").run
        assert headless["model"].startswith("anthropic/")
        assert "OPENAI_API_KEY" in str(headless["notes"])
        asked = started.run("%%agent --max-seconds 5\nBegin.", answers=["seven", "2"])
        assert len(asked.prompts) == 2
        assert asked.run["model"].startswith("openai/")
        again = started.run("%%agent --max-seconds 5\nBegin.", answers=[])
        assert (again.prompts, again.run["model"]) == ([], asked.run["model"])


def test_an_agent_object_in_a_kernel_ignores_variables_set_after_start(tmp_path: Path) -> None:
    late = "import os\nos.environ['IPYAGENT_AGENT__CONFIRM_MODE'] = 'yolo'\n"
    naive = (
        "from ipyagent.config import from_environment, resolve_config\n"
        "print(resolve_config(from_environment(os.environ)).agent.confirm_mode)\n"
    )
    code = (
        "from ipyagent import Agent\n"
        "print(Agent().config.agent.confirm_mode)\n"
        "print(Agent(confirm_mode='yolo').config.agent.confirm_mode)"
    )
    with kernel(tmp_path, IPYAGENT_WORKSPACE__ROOT="inner") as started:
        (tmp_path / "inner").mkdir()
        modes = started.run(late + naive + code).stdout.split()
        assert modes == ["yolo", "confirm-sensitive", "yolo"]
        assert started.value("Agent().environment.workspace.root.name") == "'inner'"
        assert started.value("Agent(root='.').environment.workspace.root.name != 'inner'") == "True"


def test_a_run_holds_the_tables_that_results_returned_or_displayed(
    shared: Kernel, script: Any
) -> None:
    code = "import pandas\ntable = pandas.DataFrame({'a': [1, 2]})\ntable"
    shared.run(f"%%agent {script(python(code), 'So.')} --confirm yolo\nLook at it.")
    newest = "__import__('ipyagent').last"
    assert shared.value(f"[each is table for each in {newest}.frames]") == "[True]"
    code = (
        "from IPython.display import display\n"
        "import polars\n"
        "other = polars.DataFrame({'b': [3]})\n"
        "display(other, table, {'no': 'table'})\n"
        "print(table)\n"
        "table"
    )
    shared.run(f"%%agent {script(python(code), 'So.')} --confirm yolo\nShow them.")
    assert shared.value(f"[each is other for each in {newest}.frames]") == "[True, False]"
    assert shared.value(f"[each is table for each in {newest}.frames]") == "[False, True]"


def test_a_run_that_was_drawn_has_its_figures(shared: Kernel, script: Any) -> None:
    draw = "import matplotlib.pyplot as plt\nplt.plot([1, 2])"
    shared.run(f"%%agent {script(python(draw), 'So.')} --confirm yolo\nDraw it.")
    run = "__import__('ipyagent').last"
    (output,) = shared.run(f"{run}.figures[0]").of("execute_result")
    assert output["data"]["image/png"].startswith("iVBOR")
