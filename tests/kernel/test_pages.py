"""Messages of pages, also while code runs."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from kernels import RUN_JSON, Kernel, Message, Page, kernel, python, script
from patience import PATIENCE

pytestmark = pytest.mark.kernel


# A kernel and the pages that show its notebooks, at the level of messages -------------------------

_ids = itertools.count()

COMMS = """\
from comm import get_comm_manager
print(sum(c.target_name.startswith('ipyagent') for c in get_comm_manager().comms.values()))"""


class Tab:
    """A page's side of the link."""

    def __init__(
        self, kernel: Kernel, page: str, client: str = "client", subshell: str | None = None
    ) -> None:
        self.kernel, self.subshell = kernel, subshell
        self.comm = f"in-{next(_ids)}"
        self.heard: list[Message] = []
        self.opens_and_closes: list[str] = []
        self.answers = True
        data = {"page": page, "client": client, "notebooks": ["a.ipynb"], "subshell": f"of {page}"}
        opened = {"comm_id": self.comm, "target_name": "ipyagent", "data": data}
        kernel.send("comm_open", opened, subshell)

    def __call__(self, message: Message) -> None:
        content, kind = message["content"], message["msg_type"]
        if kind in ("comm_open", "comm_close"):
            self.opens_and_closes.append(content["comm_id"])
        elif kind == "comm_msg" and content["comm_id"] == f"{self.comm}.out":
            self.heard.append(content["data"])
            if content["data"]["type"] == "ping" and self.answers:
                self.say({"type": "here"})

    def say(self, data: Message) -> None:
        self.kernel.send("comm_msg", {"comm_id": self.comm, "data": data}, self.subshell)

    def close(self) -> None:
        self.kernel.send("comm_close", {"comm_id": self.comm, "data": {}})

    def value(self, number: int) -> Any:
        """Return the answer to the request with that number."""
        return next(m["value"] for m in self.heard if m["type"] == "reply" and m["id"] == number)

    def types(self) -> list[str]:
        return [message["type"] for message in self.heard]


def run(kernel: Kernel, code: str, *tabs: Tab) -> str:
    """Run a cell while the tabs listen."""

    def listen(message: Message) -> None:
        for tab in tabs:
            tab(message)

    reply = kernel.run(code, page=listen)
    assert reply.status == "ok", reply.content
    return reply.stdout.strip()


@pytest.mark.spec("P42")
def test_a_page_that_says_goodbye_leaves_nothing_behind(fresh: Kernel) -> None:
    before = run(fresh, COMMS)
    tab = Tab(fresh, "one")
    assert int(run(fresh, COMMS, tab)) == int(before) + 2
    tab.close()
    assert run(fresh, COMMS, tab) == before
    assert tab.opens_and_closes == []  # an error in the pages that never saw that comm
    after = Tab(fresh, "two")
    run(fresh, "1", after)
    assert after.heard[0] == {"type": "left", "subshells": ["of one"]}


@pytest.mark.spec("P42")
def test_fifty_page_loads_without_goodbye_leave_no_leftovers(fresh: Kernel) -> None:
    before = int(run(fresh, COMMS))
    for number in range(50):
        tab = Tab(fresh, f"load-{number}")
    assert int(run(fresh, COMMS, tab)) <= before + 2 * 2
    assert tab.types() == ["left", "overview"]
    assert tab.heard[0]["subshells"] == ["of load-47"]


@pytest.mark.spec("P42")
def test_pages_that_answer_are_kept_when_others_connect(fresh: Kernel) -> None:
    stays = Tab(fresh, "stays")
    run(fresh, "1", stays)
    for number in range(5):
        run(fresh, "1", stays, Tab(fresh, f"load-{number}"))
    assert "ping" in stays.types()
    assert "again" not in stays.types()
    stays.say({"type": "ask", "id": 1, "what": "bundle", "run_id": "none"})
    run(fresh, "1", stays)
    assert stays.value(1) is None


def test_a_page_that_was_dropped_is_asked_to_connect_again(fresh: Kernel) -> None:
    sleeps = Tab(fresh, "sleeps")
    sleeps.answers = False
    for number in range(3):
        run(fresh, "1", sleeps, Tab(fresh, f"load-{number}"))
    assert sleeps.types() == ["overview", "ping", "again"]


def test_a_page_that_reconnects_replaces_itself(fresh: Kernel) -> None:
    tabs = [Tab(fresh, "same"), Tab(fresh, "same")]
    load = "from ipyagent.kernel.pages import Pages"
    pages = f"{load}\nprint(len(get_ipython().meta[Pages].all()))"
    assert run(fresh, pages, *tabs) == "1"


def test_unloading_says_goodbye_to_all_pages(fresh: Kernel) -> None:
    before, tab = int(run(fresh, COMMS)), Tab(fresh, "one")
    run(fresh, "1", tab)
    run(fresh, "%unload_ext ipyagent", tab)
    assert tab.types()[-1] == "bye"
    assert int(run(fresh, COMMS)) == before - 1


SILENCE = """\
import concurrent.futures, time
from ipyagent.kernel import pages
from ipyagent.kernel.pages import Pages
pages.REQUEST_SECONDS = 0.5
page = get_ipython().meta[Pages].all()[0]
with concurrent.futures.ThreadPoolExecutor(1) as pool:
    for _ in range(2):
        began = time.monotonic()
        error = pool.submit(page.request, "cells").exception()
        print(error, time.monotonic() - began > 0.4)
print(get_ipython().meta[Pages].answering())"""


def test_a_page_that_does_not_answer_is_waited_for_only_once(fresh: Kernel) -> None:
    tab = Tab(fresh, "silent")
    run(fresh, "1", tab)
    no_answer = "the page with the notebook does not answer; is it open?"
    assert run(fresh, SILENCE, tab) == f"{no_answer} True\n{no_answer} False\n[]"
    tab.say({"type": "here"})
    assert "Page(id='silent'" in run(fresh, "print(get_ipython().meta[Pages].answering())", tab)


def test_a_page_reports_its_notebooks_and_their_connections(fresh: Kernel) -> None:
    tab = Tab(fresh, "first", "me")
    notebooks = {"notebooks": ["a.ipynb", "b.ipynb"], "clients": ["me", "mine"]}
    tab.say({"type": "shows", **notebooks})
    code = """\
from ipyagent.kernel.pages import Pages
[page] = get_ipython().meta[Pages].all()
print(*page.notebooks, *page.clients)"""
    assert run(fresh, code, tab) == "a.ipynb b.ipynb me mine"


def leave_run_unfinished(folder: Path) -> None:
    """Leave a run of the cell `cell-1` behind that its kernel did not end."""
    kill = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    option = script(folder, python(kill, text="Well."))
    with kernel(folder) as first:
        content = {"code": f"%%agent {option} --confirm yolo\nBegin.", "allow_stdin": True}
        message = first.client.session.msg("execute_request", content)
        message["metadata"]["cellId"] = "cell-1"
        first.client.shell_channel.send(message)
        first.manager.provisioner.process.wait(PATIENCE)


@pytest.mark.spec("P42", "P06")
def test_the_next_kernel_shows_a_run_that_was_left_unfinished(tmp_path: Path) -> None:
    leave_run_unfinished(tmp_path)
    with kernel(tmp_path) as second:
        tab = Tab(second, "page")
        tab.say({"type": "ask", "id": 1, "what": "bundle", "cell_id": "cell-1"})
        tab.say({"type": "ask", "id": 2, "what": "bundle", "cell_id": "cell-2"})
        run(second, "1", tab)
        saved = tab.value(1)[RUN_JSON]
        assert saved["status"] == "error"
        assert saved["error"].startswith("the kernel ended during the run")
        assert tab.value(2) is None
        overviews = [message["overview"] for message in tab.heard if message["type"] == "overview"]
        assert [each["facts"][0] for each in overviews[-1]["runs"]] == ["failed"]


@pytest.mark.spec("P42", "E05")
def test_a_run_of_a_session_that_no_kernel_has_opened_says_that_it_is_taken_back(
    tmp_path: Path,
) -> None:
    ids = []
    with kernel(tmp_path) as first:
        for name in ("aside", "default"):
            write = {"name": "write_file", "arguments": {"path": name, "content": "made"}}
            option = script(tmp_path, {"calls": [write]}, "Done.")
            cell = f"%%agent {option} --confirm yolo --session {name}\nWrite."
            ids.append(first.run(cell).run["id"])
    with kernel(tmp_path) as second:
        tab = Tab(second, "page")
        for number, run_id in enumerate(ids):
            run(second, f"%agent undo {run_id}", tab)
            tab.say({"type": "ask", "id": number, "what": "bundle", "run_id": run_id})
            run(second, "1", tab)
            assert len(tab.value(number)[RUN_JSON]["taken_back"]) == 1
            assert ">taken back<" in tab.value(number)["text/html"]
        overviews = [message["overview"] for message in tab.heard if message["type"] == "overview"]
        assert {each["id"] for each in overviews[-1]["runs"] if each["taken_back"]} == {*ids}
        assert "variables" not in overviews[-1]["panel"]["order"][""]
    with kernel(tmp_path) as third:
        for run_id in ids:
            assert len(third.run(f"%agent show {run_id}").run["taken_back"]) == 1


@pytest.mark.spec("P42", "P06")
def test_a_page_may_send_requests_while_the_first_cell_starts(tmp_path: Path) -> None:
    leave_run_unfinished(tmp_path)
    option = script(tmp_path, "Fine.")
    with kernel(tmp_path) as second:
        tab = Tab(second, "page", subshell=second.create_subshell())
        tab.say({"type": "ask", "id": 1, "what": "bundle", "cell_id": "cell-1"})
        run(second, f"%%agent {option}\nBegin.\n", tab)
        assert "2 runs" in run(second, "%agent status", tab)
        assert tab.value(1)[RUN_JSON]["status"] == "error"


SOON = """
import pathlib
import ipyagent.kernel.pages as pages
pages.CONNECT_SECONDS = 3600
%load_ext ipyagent
print("loaded", flush=True)
print(len(pages.current(get_ipython(), pathlib.Path()).pages()))"""


@pytest.mark.spec("P42")
def test_soon_after_loading_a_run_waits_for_the_page_that_is_about_to_connect(
    tmp_path: Path,
) -> None:
    with kernel(tmp_path, loads=False, JPY_SESSION_NAME=str(tmp_path / "a.ipynb")) as started:
        subshell, tabs = started.create_subshell(), list[Tab]()

        def connect(message: Message) -> None:
            if "loaded" in message["content"].get("text", ""):
                tabs.append(Tab(started, "page", subshell=subshell))

        assert started.run(SOON, page=connect).stdout.split() == ["loaded", "1"]


def test_no_page_is_awaited_where_no_server_can_serve_one(tmp_path: Path) -> None:
    with kernel(tmp_path, loads=False) as started:
        assert started.run(SOON).stdout.split() == ["loaded", "0"]


@pytest.mark.spec("P42")
def test_a_request_of_a_page_does_not_create_a_journal(fresh: Kernel, tmp_path: Path) -> None:
    tab = Tab(fresh, "page")
    tab.say({"type": "ask", "id": 1, "what": "bundle", "cell_id": "cell-1"})
    run(fresh, "1", tab)
    assert tab.value(1) is None
    assert not (tmp_path / ".ipyagent").exists()


@pytest.mark.spec("P42")
def test_a_page_gets_and_takes_back_a_run_of_another_session(fresh: Kernel, tmp_path: Path) -> None:
    option = script(tmp_path, python("new = 1"), "Done.")
    tab = Tab(fresh, "page")
    run(fresh, f"%%agent {option} --confirm yolo --session aside\nMake it.", tab)
    newest = fresh.value("__import__('ipyagent').last.id").strip("'")
    tab.say({"type": "ask", "id": 1, "what": "bundle", "run_id": newest})
    tab.say({"type": "ask", "id": 2, "what": "undo", "run_id": newest, "dry_run": True})
    fresh.listen(tab, lambda: tab.types().count("reply") > 1)
    assert tab.value(1)[RUN_JSON]["id"] == newest
    assert tab.value(2)["skipped"] == []
    assert tab.value(2)["restored"] == ["removes new"]


def test_a_page_gets_a_run_as_plain_cells_that_say_that_nobody_tried_them(
    fresh: Kernel, tmp_path: Path
) -> None:
    calls = [python("import math\nhelper = 1"), python("1 / 0"), python("root = math.sqrt(9)")]
    option = script(tmp_path, *calls, python("root"), "It is **3**.")
    tab = Tab(fresh, "page")
    run(fresh, f"%%agent {option} --confirm yolo\nTake the root.", tab)
    newest = fresh.value("__import__('ipyagent').last.id").strip("'")
    for number, run_id in enumerate([newest, "run_that_is_not_there"]):
        tab.say({"type": "ask", "id": number, "what": "freeze", "run_id": run_id})
        fresh.listen(tab, lambda: tab.types().count("reply") > number)  # noqa: B023
    first, *cells = tab.value(0)["cells"]
    remark = f"# Unverified: `%agent freeze {newest} --verify` tries it in a fresh kernel."
    assert first == {"kind": "code", "source": f"{remark}\nimport math"}
    assert [each["kind"] for each in cells] == ["code", "code", "code", "markdown"]
    assert [each["source"] for each in cells] == [
        "# Prompt: Take the root.\nhelper = 1",
        "root = math.sqrt(9)",
        "root",
        "It is **3**.",
    ]
    assert tab.value(1) == {"cells": []}


def test_a_page_asks_for_the_models_and_chooses_one(fresh: Kernel) -> None:
    tab = Tab(fresh, "one")
    run(fresh, "%agent model scripted/typed.json", tab)
    requests: list[str | None] = [None, "scripted/chosen.json"]
    for number, model in enumerate(requests):
        tab.say({"type": "ask", "id": number, "what": "models", "model": model})
        fresh.listen(tab, lambda: tab.types().count("reply") > number)  # noqa: B023
    assert next(iter(tab.value(0)["models"])) == tab.value(0)["current"] == "scripted/typed.json"
    assert [*tab.value(1)["models"]][:2] == ["scripted/chosen.json", "scripted/typed.json"]
    assert run(fresh, "%agent model", tab).startswith("scripted/chosen.json")


def test_a_page_is_told_why_no_model_answers(fresh: Kernel) -> None:
    tab = Tab(fresh, "one")
    run(fresh, "%agent config llm.api_base=http://localhost:1/v1", tab)
    tab.say({"type": "ask", "id": 1, "what": "models", "model": None})
    fresh.listen(tab, lambda: "reply" in tab.types())
    assert "set llm.model too" in tab.value(1)["problem"]


def test_a_page_is_told_what_fits_the_variables_and_files(fresh: Kernel, tmp_path: Path) -> None:
    (tmp_path / "a.ipynb").write_text("{}")
    tab = Tab(fresh, "one")
    steps = [
        "1",
        "open('a.csv', 'w').write('x,y\\n1,2\\n')",
        "import pandas as p; t = p.DataFrame()",
    ]
    for number, step in enumerate(steps):
        run(fresh, step, tab)
        tab.say({"type": "ask", "id": number, "what": "requests"})
        fresh.listen(tab, lambda: tab.types().count("reply") > number)  # noqa: B023
    requests = [tab.value(number)["requests"] for number in range(3)]
    assert [each[:1] for each in requests] == [[], ["Load `a.csv`"], ["Profile `t`"]]


def test_a_page_opens_a_variable_whose_own_code_does_not_run(fresh: Kernel) -> None:
    tab = Tab(fresh, "one")
    loud = "class Loud:\n    def __repr__(self): called.append(1); return 'loud'"
    run(fresh, f"called, rows = [], [11, 12]\n{loud}\nloud = Loud()", tab)
    for number, name in enumerate(("rows", "loud", "nothing")):
        tab.say({"type": "ask", "id": number, "what": "variable", "text": name})
        fresh.listen(tab, lambda: tab.types().count("reply") > number)  # noqa: B023
    rows, described, missing = (tab.value(number)["html"] for number in range(3))
    assert "11\n  12" in rows
    assert "Loud" in described
    assert "It is gone." in missing
    assert fresh.value("called") == "[]"


def test_a_page_goes_on_with_another_session_or_a_new_one(fresh: Kernel, tmp_path: Path) -> None:
    tab = Tab(fresh, "one")
    run(fresh, f"%%agent {script(tmp_path, 'Done.')}\nPlot it.\n", tab)
    [first] = re.findall(r"\* (\w+)", run(fresh, "%agent session list", tab))
    for number, text in enumerate(("", first, "no such session")):
        tab.say({"type": "ask", "id": number, "what": "session", "text": text})
        fresh.listen(tab, lambda: tab.types().count("reply") > number)  # noqa: B023
    assert tab.value(0)["text"].endswith(": 0 messages")
    assert "ipyagent goes on with " in tab.value(1)["text"]
    assert f"({first}): 3 messages" in tab.value(1)["text"]
    assert "no such session" in tab.value(2)["problem"]
    assert f"* {first}" in run(fresh, "%agent session list", tab)


def test_a_page_opens_a_variable_and_completes_a_name_while_a_question_waits(
    fresh: Kernel, tmp_path: Path
) -> None:
    """Its cell is running, but no code is."""
    tab, page, asked = Tab(fresh, "one"), Page(fresh, decision=""), list[str]()
    run(fresh, "rows = [11, 12]", tab)
    Path(tmp_path, "rose.csv").touch()

    def on_moment(_page: Page, moment: Message) -> None:
        if moment["type"] == "asked":
            asked.append(moment["approval_id"])
            tab.say({"type": "ask", "id": 1, "what": "variable", "text": "rows"})
            tab.say({"type": "ask", "id": 2, "what": "complete", "text": "@ro"})

    def listen(message: Message) -> None:
        page(message)
        tab(message)
        if asked and tab.types().count("reply") == 2:
            page.decide(asked.pop(), "deny")

    page.on_moment = on_moment
    option = script(tmp_path, python("rows.append(13)"), "Left as it is.")
    fresh.run(f"%%agent {option}\nAdd a row.", page=listen)
    assert "11\n  12" in tab.value(1)["html"]
    assert tab.value(2) == {"names": ["@rows", "@rose.csv"]}


def test_a_page_finds_sessions_by_their_prompts(fresh: Kernel, tmp_path: Path) -> None:
    tab = Tab(fresh, "one")
    option = script(tmp_path, "Done.", "Done.")
    run(fresh, f"%%agent {option}\nPlot it.\n", tab)
    run(fresh, "%agent session new", tab)
    run(fresh, f"%%agent {option}\nSum it.\n", tab)
    for number, text in enumerate(("PLOT", "it", "nothing")):
        tab.say({"type": "ask", "id": number, "what": "sessions", "text": text})
        fresh.listen(tab, lambda: tab.types().count("reply") > number)  # noqa: B023
    found = ["".join(each["html"] for each in tab.value(number)["set"]) for number in range(3)]
    assert "Plot it." in found[0]
    assert "Sum it." not in found[0]
    assert ("Plot it." in found[1], "Sum it." in found[1]) == (True, True)
    assert "No session has that" in found[2]


def test_a_page_gets_the_blocks_of_the_panel_that_have_changed(
    fresh: Kernel, tmp_path: Path
) -> None:
    tab = Tab(fresh, "one")
    option = script(tmp_path, "Done.", "Done.")
    for prompt in ("Plot it.", "Sum it."):
        run(fresh, f"%%agent {option}\n{prompt}\n", tab)
    later = Tab(fresh, "two")
    run(fresh, "1", tab, later)
    sent = [each["overview"]["panel"] for each in tab.heard if each["type"] == "overview"]
    first = [each for panel in sent for each in panel["set"] if "Plot it." in each["html"]]
    states = [each["html"] for each in first if each["key"].startswith("runs/")]
    assert len(states) == len(set(states))
    told = [each["overview"]["panel"] for each in later.heard if each["type"] == "overview"]
    keys = {key for keys in told[-1]["order"].values() for key in keys}
    assert {each["key"] for panel in told for each in panel["set"]} == keys


def test_prompts_to_begin_with_fit_what_a_running_cell_leaves(
    fresh: Kernel, tmp_path: Path
) -> None:
    tab = Tab(fresh, "one", subshell=fresh.create_subshell())

    def ask(*what: str) -> None:
        for number, each in enumerate(what):
            tab.say({"type": "ask", "id": number, "what": each})

    def listen(message: Message) -> None:
        """Ask in the midst of the cell, which goes on once the later request is answered."""
        tab(message)
        if message["msg_type"] == "stream" and message["content"]["text"].strip() == "begun":
            tab.heard.clear()
            ask("requests", "models")
        if any(m["type"] == "reply" and m["id"] == 1 for m in tab.heard):
            (tmp_path / "go").touch()

    run(fresh, "import pathlib, time, pandas; t = pandas.DataFrame()", tab)
    ask("requests")
    fresh.listen(tab, lambda: "reply" in tab.types())
    wait = "print('begun', flush=True)\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)\n"
    fresh.run(f"{wait}t, u = 1, pandas.DataFrame()", page=listen)
    fresh.listen(tab, lambda: tab.types().count("reply") == 2)
    assert tab.value(0)["requests"][0] == "Profile `u`"


# A page's message that arrives while code runs does not affect the code's figures -----------------

DRAW = """
import os, time, matplotlib.pyplot as plt
plt.plot([1, 2, 3])
kernel = get_ipython().kernel
kernel.send_response(kernel.iopub_socket, 'stream', {'name': 'stdout', 'text': 'drawn'})
while not os.path.exists('answered'):
    time.sleep(0.02)
print('figures:', plt.get_fignums())
"""


@pytest.fixture
def started(fresh: Kernel) -> Kernel:
    fresh.run("%matplotlib inline")
    return fresh


@pytest.fixture
def subshell(started: Kernel) -> str:
    """Return the subshell that handles messages while the main shell is blocked."""
    return started.create_subshell()


def is_drawn(message: Message) -> bool:
    return message["msg_type"] == "stream" and message["content"]["text"] == "drawn"


def test_a_message_of_the_extension_keeps_the_figures_of_an_ordinary_cell(
    started: Kernel, subshell: str, tmp_path: Path
) -> None:
    tab = Tab(started, "page", subshell=subshell)

    def on_message(message: Message) -> None:
        tab(message)
        if is_drawn(message):
            for number in (1, 2):  # what is done after the first is done before the second
                tab.say({"type": "ask", "id": number, "what": "bundle", "run_id": "none"})
        if "reply" in tab.types() and tab.heard[-1].get("id") == 2:
            (tmp_path / "answered").touch()

    reply = started.run(DRAW, page=on_message)
    assert "figures: [1]" in reply.stdout
    assert [sorted(shown["data"]) for shown in reply.of("display_data")] == [
        ["image/png", "text/plain"]
    ]


class Resyncing(Page):
    """A page that asks for the state twice, once the code has drawn."""

    def __init__(self, kernel: Kernel, subshell: str, answered: Path) -> None:
        super().__init__(kernel, subshell=subshell)
        self.answered, self.is_drawn, self.snapshots = answered, False, 0

    def __call__(self, message: Message) -> None:
        super().__call__(message)
        if is_drawn(message):
            self.is_drawn = True
            for _ in range(2):
                self.say({"type": "resync"})

    def _hear(self, message: Message) -> None:
        super()._hear(message)
        self.snapshots += self.is_drawn and message.get("type") == "snapshot"
        if self.snapshots == 2:
            self.answered.touch()


def test_a_message_of_the_card_keeps_the_figures_of_the_agents_code(
    started: Kernel, subshell: str, tmp_path: Path
) -> None:
    page = Resyncing(started, subshell, tmp_path / "answered")
    option = script(tmp_path, python(DRAW), "Done.")
    (result,) = started.run(f"%%agent {option}\nDraw.", page=page).results
    assert "figures: [1]" in result["output"]
    assert len(result["images"]) == 1
