"""The page is loaded anew in mid-run, and kernels die in it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import nbformat
import pytest
from playwright.sync_api import expect
from scripted_notebooks import (
    LOAD,
    PANEL,
    RUN_JSON,
    WIDGET_VIEW,
    WOULD_SAVE_QUESTION,
    begin,
    call,
    decide,
    expect_ended,
    go,
    listen,
    python,
    reload,
    script,
    until,
    waiting,
)
from traffic import HeldMessages
from user_actions import DECISIONS, press

from conftest import Lab, Notebook
from ipyagent.schema import Message, Node, Role
from ipyagent.ui.reveal import shorten
from patience import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(180)]


RUNNING = "ipyagent is running…"


AT_A_RESTART = (
    "debug: Kernel: restarting",
    "debug: Kernel: starting",
    "warning: Connection lost, reconnecting",
    # It has forgotten all comms by the time that the old kernel closes them.
    "error: Comm not found for comm id",
    # JupyterLab asks its debugger again as soon as the new kernel is there; it may go away first.
    "error: Could not restore the debugger state",
)


RESTART = f"() => {PANEL}.sessionContext.session.kernel.restart()"


WOULD_SAVE_END = f"""(index) =>
    {PANEL}.content.model.toJSON().cells[index].outputs[0].data['{RUN_JSON}']?.status === 'done'"""


WOULD_SAVE_PLAN = f"""() =>
    {PANEL}.content.model.toJSON().cells[1].outputs[1].data['{RUN_JSON}']?.status === 'done'"""


COUNT = """\
from collections import Counter
from comm import get_comm_manager
comms = Counter(c.target_name for c in get_comm_manager().comms.values())
subshells = get_ipython().kernel.shell_channel_thread.manager.list_subshell()
print(comms["ipyagent"], comms["ipyagent.out"], len(subshells))"""


def wait_for(path: Path) -> None:
    """Until the agent has written that file."""
    wait_until(path.exists)


def save_with_question(book: Notebook) -> Any:
    """Save the run that waits in the second cell; returns the notebook as it is saved."""
    book.page.wait_for_function(WOULD_SAVE_QUESTION)
    saved = book.save()
    assert saved.cells[1].outputs[0].data[RUN_JSON]["status"] == "running"
    return saved


@pytest.mark.spec("P42")
def test_without_the_extension_a_reload_loses_the_card(jupyterlab: Lab, notebook: Any) -> None:
    """What the other tests of reloads see is done by the extension."""
    book = waiting(jupyterlab, notebook, "lost", python("a = 1"), "Done.")
    aborted = []

    def abort(route: Any) -> None:
        aborted.append(route.request.url)
        route.abort()

    book.page.route("**/extensions/ipyagent/**", abort)
    reload(book)
    book.page.evaluate("() => window.jupyterapp.restored")
    expect(book.cell(1)).to_be_visible()
    expect(book.run(1)).to_have_count(0)
    assert aborted
    book.page.unroute("**/extensions/ipyagent/**")
    reload(book)
    book.expect_state(1, "waiting")


@pytest.mark.spec("P42")
def test_a_card_that_was_saved_in_mid_run_comes_back_once_and_says_nothing(
    jupyterlab: Lab, notebook: Any
) -> None:
    book = waiting(jupyterlab, notebook, "saved", python("a = 1"), "Done.")
    saved = save_with_question(book)
    lines = listen(book.page)
    reload(book)
    book.expect_state(1, "waiting")
    expect(book.run(1)).to_have_count(1)
    # As a page without the extension saves it.
    path = jupyterlab.folder / book.name
    saved.cells[1].outputs[0].data = {WIDGET_VIEW: {"model_id": "x"}, "text/plain": RUNNING}
    nbformat.write(saved, path)
    reload(book)
    book.expect_state(1, "waiting")
    decide(book, 1, "deny")
    expect_ended(book, 1)
    expect(book.prompt(1)).to_have_text("[2]:")
    assert lines() == []


@pytest.mark.spec("P42")
def test_a_run_that_was_saved_while_it_waited_is_shown_without_a_kernel(
    jupyterlab: Lab, notebook: Any
) -> None:
    book = waiting(jupyterlab, notebook, "kept", python("a = 1", text="Let me compute."), "Done.")
    reason = book.run(1).locator("[data-ipyagent=reason]")
    reason.fill("because")
    save_with_question(book)
    expect(reason).to_have_value("because")  # it was not drawn anew
    book.page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")
    path = jupyterlab.folder / book.name
    saved = nbformat.read(path, as_version=4)
    del saved.metadata["kernelspec"]
    nbformat.write(saved, path)
    reload(book)
    expect(book.run(1)).to_contain_text("Let me compute.")
    expect(book.run(1)).to_contain_text("unfinished")
    expect(book.run(1)).to_contain_text("no decision recorded")
    expect(book.run(1).locator(DECISIONS)).to_have_count(0)


@pytest.mark.spec("P42")
def test_a_cell_that_is_moved_and_copied_while_it_waits_goes_on(
    jupyterlab: Lab, notebook: Any
) -> None:
    book = waiting(jupyterlab, notebook, "moved", python("a = 1"), "Done.")
    book.page.wait_for_function(WOULD_SAVE_QUESTION)
    book.prompt(1).click()
    book.command("notebook:duplicate-below")
    book.expect_state(2, "waiting")
    book.command("notebook:move-cell-up")
    book.expect_state(1, "waiting")
    book.expect_state(2, "waiting")
    decide(book, 1, "approve")
    for index in (1, 2):
        book.page.wait_for_function(WOULD_SAVE_END, arg=index)
        assert expect_ended(book, index)["status"] == "done"


@pytest.mark.spec("P42")
def test_a_run_that_waits_is_not_lost_when_its_cell_is_cleared_or_run_again(
    jupyterlab: Lab, notebook: Any
) -> None:
    book = waiting(jupyterlab, notebook, "anew", python("a = 1"), "Done.")
    lines = listen(book.page)
    book.command("notebook:clear-all-cell-outputs")
    book.expect_state(1, "waiting")
    book.start(1)  # it has to wait, for the first to be decided on
    book.expect_state(1, "waiting")
    decide(book, 1, "approve")
    expect(book.run(1)).to_have_count(2)
    expect(book.run(1).first).to_have_attribute("data-state", "done")
    expect(book.run(1).last).to_have_attribute("data-state", "waiting")
    decide(book, 1, "deny")
    expect(book.run(1).last).to_have_attribute("data-state", "done")
    book.expect_done(1)
    book.start(1)
    book.expect_state(1, "waiting")  # and from here on it is a cell like any other
    decide(book, 1, "deny")
    expect_ended(book, 1)
    assert lines() == []


@pytest.mark.spec("P42")
def test_a_cell_that_is_run_again_does_not_get_the_end_of_its_last_run(
    jupyterlab: Lab, notebook: Any
) -> None:
    option = script(jupyterlab.folder, "late", python("a = 1"), "Done.")
    once = f"""\
if "begun" not in globals():
    begun = True
    get_ipython().run_cell_magic("agent", "{option}", "Begin.")
else:
    print("no run")"""
    book = notebook(LOAD, once, "print('the answer was before this')", ready=False)
    answers = HeldMessages(book.page, b'"reply"')
    book.open().ready()
    begin(book)
    book.expect_state(1, "waiting")
    book.command("notebook:clear-all-cell-outputs")
    book.expect_state(1, "waiting")  # drawn by ipyagent now, and not by JupyterLab
    answers.begin()
    decide(book, 1, "deny")
    book.expect_done(1)
    answers.wait()
    book.start(1)
    expect(book.output(1)).to_have_text("no run\n")
    answers.end()
    book.start(2)
    expect(book.output(2)).to_contain_text("before this")
    expect(book.output(1)).to_have_text("no run\n")


@pytest.mark.spec("P42")
def test_a_card_in_a_cell_that_cannot_await_comes_back(jupyterlab: Lab, notebook: Any) -> None:
    option = script(jupyterlab.folder, "timed", python("a = 1"), "Done.")
    book = notebook(LOAD, f"%%time\nget_ipython().run_cell_magic('agent', '{option}', 'Begin.')")
    begin(book)
    book.expect_state(1, "waiting")
    reload(book)
    book.expect_state(1, "waiting")
    decide(book, 1, "approve")
    expect_ended(book, 1)


@pytest.mark.spec("P42")
def test_a_run_whose_tool_occupies_the_main_thread_comes_back_and_goes_on(
    jupyterlab: Lab, notebook: Any
) -> None:
    option = script(jupyterlab.folder, "blocks", python(until("blocks")), "Done.")
    book = notebook(LOAD, f"%%agent {option} --confirm yolo\nBegin.")
    begin(book)
    tool = book.run(1).locator("[data-ipyagent=tool]")
    expect(tool).to_have_attribute("data-state", "running")
    reload(book)
    expect(tool).to_have_attribute("data-state", "running")
    expect(book.run(1).locator("[data-ipyagent=stop]")).to_be_visible()
    go(jupyterlab, "blocks")
    expect_ended(book, 1)
    expect(book.run(1)).to_contain_text("went on")


@pytest.mark.spec("P42")
@pytest.mark.parametrize("is_saved", [True, False])
def test_a_run_that_ended_while_no_page_was_there_is_shown(
    jupyterlab: Lab, notebook: Any, is_saved: bool
) -> None:
    name = f"away-{is_saved}"
    end = python(f"import pathlib\npathlib.Path('{name}.end').touch()")
    option = script(jupyterlab.folder, name, python(until(name)), end, "Done, alone.")
    book = notebook(LOAD, f"%%agent {option} --confirm yolo\nBegin.")
    begin(book)
    expect(book.run(1)).to_contain_text("run_python")
    if is_saved:
        book.save()
    other = book.page.context.new_page()
    book.page.close()
    go(jupyterlab, name)
    wait_for(jupyterlab.folder / f"{name}.end")
    book.page = other
    book.open()
    assert expect_ended(book, 1)["status"] == "done"
    expect(book.run(1)).to_contain_text("Done, alone.")


@pytest.mark.spec("P42")
def test_what_streams_goes_on_after_a_reload(jupyterlab: Lab, notebook: Any) -> None:
    words = [f"word{number} " for number in range(120)]
    option = script(jupyterlab.folder, "streams", {"text": "".join(words), "delay": 0.08})
    book = notebook(LOAD, f"%%agent {option}\nTalk.")
    begin(book)
    expect(book.run(1)).to_contain_text("word3")
    reload(book)
    expect(book.run(1)).to_contain_text("word3")
    book.expect_state(1, "done")
    run = expect_ended(book, 1)
    assert run["steps"][0]["message"]["content"][0]["text"] == "".join(words)
    expect(book.run(1)).to_contain_text("word118 word119")


@pytest.mark.alone
@pytest.mark.spec("P42", "P06")
def test_after_a_restart_the_card_says_so_and_then_shows_what_was_recorded(
    jupyterlab: Lab, notebook: Any
) -> None:
    book = waiting(jupyterlab, notebook, "restart", python("a = 1", text="Let me see."), "Done.")
    lines = listen(book.page)
    book.page.evaluate(RESTART)
    book.expect_state(1, "failed")
    expect(book.run(1)).to_contain_text("The kernel was restarted or stopped")
    expect(book.run(1)).to_contain_text("Let me see.")
    expect(book.run(1).locator(DECISIONS)).to_have_count(0)
    book.shot("restart-stale")
    book.ready().start(0)
    # A restart interrupts first: either the kernel had time to record this, or it was recovered.
    recorded = re.compile("You stopped this run.|its work until then is kept")
    expect(book.run(1)).to_contain_text(recorded)
    state = book.run(1).get_attribute("data-state")
    assert expect_ended(book, 1, state)["status"] in ("cancelled", "error")
    book.shot("restart-recovered")
    assert [line for line in lines() if not line.startswith(AT_A_RESTART)] == []


@pytest.mark.spec("P42", "P06")
def test_a_restored_card_of_a_kernel_that_dies_says_so(jupyterlab: Lab, notebook: Any) -> None:
    dies = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    option = script(jupyterlab.folder, "dies2", python(dies), "Never.")
    book = notebook(LOAD, f"%%agent {option}\nBegin.", f"%%agent {option}\nGo again.")
    begin(book)
    book.expect_state(1, "waiting")
    reload(book)
    decide(book, 1, "approve")
    book.expect_state(1, "failed")
    expect(book.run(1).locator(DECISIONS)).to_have_count(0)
    dialog = book.page.locator(".jp-Dialog")
    dialog.locator("button.jp-mod-accept").click()
    # And one whose widget JupyterLab tells nothing of the death.
    book.ready()
    begin(book, 2)
    recorded = "the kernel ended during the run"
    expect(book.run(1)).to_contain_text(recorded)
    assert expect_ended(book, 1, "failed")["status"] == "error"
    decide(book, 2, "approve")
    book.expect_state(2, "failed")
    expect(book.run(2)).to_contain_text("The kernel was restarted or stopped")


@pytest.mark.spec("P42")
def test_reloads_leave_no_comms_and_no_subshells_behind(jupyterlab: Lab, notebook: Any) -> None:
    book = notebook(LOAD, COUNT)
    begin(book)
    book.expect_done(1)
    # A goodbye may get lost on the way, and is made up for when the next page comes: what is left
    # behind for good grows with each page. One of the outward ones is the announcement.
    for number in range(12):
        book.save()
        reload(book)
        book.ready().start(1)
        book.expect_done(1)
        counts = tuple(map(int, re.findall(r"\d+", book.output(1).text_content() or "")))
        are_few = all(count <= most for count, most in zip(counts, (2, 3, 3), strict=True))
        if number >= 4 and are_few:
            return
    pytest.fail(f"comms and subshells are left behind: {counts}")


@pytest.mark.spec("P42")
def test_a_notebook_that_never_loads_ipyagent_hears_nothing_of_it(notebook: Any) -> None:
    book = notebook("1 + 1", ready=False)
    lines = listen(book.page)
    book.ready().start(0)
    book.expect_done(0)
    reload(book)
    book.ready()
    assert lines() == []


@pytest.mark.spec("P25", "P42")
def test_a_plan_in_the_background_is_followed_after_a_reload(
    jupyterlab: Lab, notebook: Any
) -> None:
    calls = [
        call("run_shell", command="while [ ! -e behind.go ]; do sleep 0.05; done"),
        call("write_file", path="behind.txt", content="x"),
    ]
    option = script(jupyterlab.folder, "behind", {"text": "Wait.", "calls": calls})
    load = f"{LOAD}\n%agent config tools.shell=true"
    book = notebook(load, f"%%agent {option} --plan --background\nBegin.")
    begin(book)
    card = book.run(1).nth(1)
    expect(card).to_have_attribute("data-state", "waiting")
    press(card.locator("[data-ipyagent=approve]"))
    book.expect_done(1)
    expect(card).to_have_attribute("data-state", "running")
    book.save()
    reload(book)
    expect(card).to_have_attribute("data-state", "running")
    expect(card.locator("[data-ipyagent=stop]")).to_be_visible()
    go(jupyterlab, "behind")
    expect(card).to_have_attribute("data-state", "done")
    book.page.wait_for_function(WOULD_SAVE_PLAN)
    outputs = book.save().cells[1].outputs
    assert [each.data[RUN_JSON]["status"] for each in outputs] == ["done", "done"]


MARKUP = [
    "<script>window.pwned = 1</script>",
    "<img src=x onerror=window.pwned=1>",
    "<a href='javascript:window.pwned=1'>x</a>",
    "</foreignObject></svg><iframe srcdoc='<script>window.pwned=1</script>'>",
    '"]:::end_\nclick n0 call alert(1)',
    'click n0 "javascript:window.pwned=1"',
    "%%{init: {'securityLevel': 'loose'}}%%",
    "end --> n0; style n0 fill:url(https://example.invalid)",
    "#quot;]#35; &lt;b&gt; fa:fa-car @{ img: x }",
    "`**bold** _it_ [x](javascript:1)` $$x^2$$",
]


"""What means something to HTML, Mermaid, Markdown or KaTeX."""


@pytest.mark.spec("P10", "P06", "H26")
def test_a_session_survives_its_kernel_and_a_broken_run_is_told(
    jupyterlab: Any, notebook: Any
) -> None:
    dies = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    first = script(jupyterlab.folder, "lives", "I will remember **that**.")
    second = script(jupyterlab.folder, "dies", python(dies, text="This may end badly."))
    third = script(jupyterlab.folder, "goes_on", "You said: *remember 42*.")
    book = notebook(
        LOAD,
        f"%%agent {first}\nRemember 42.",
        f"%%agent {second} --confirm yolo\nDo something rash.",
        LOAD,
        f"%%agent {third}\nWhat did I say?",
        "%agent runs",
        "%agent session graph",
    )
    for index in (0, 1):
        book.start(index)
        book.expect_done(index)
    book.start(2)
    # JupyterLab says that the kernel died, and has started another by then.
    dialog = book.page.locator(".jp-Dialog")
    expect(dialog).to_contain_text("restart")
    dialog.locator("button.jp-mod-accept").click()
    book.ready()
    for index in (3, 4, 5, 6):
        book.start(index)
        book.expect_done(index)
    expect(book.run(4)).to_contain_text("The kernel ended while run")
    expect(book.run(4)).to_contain_text("remember 42")
    expect(book.output(5)).to_contain_text("failed")
    graph = book.output(6).locator(".jp-RenderedMermaid img")
    expect(graph).to_be_visible()
    expect(graph).to_have_attribute("alt", re.compile("Conversation of [0-9]+ nodes"))
    book.output(6).scroll_into_view_if_needed()
    book.shot("session-graph")


@pytest.mark.spec("M01", "A08")
def test_a_retry_counts_down_and_can_be_stopped(jupyterlab: Any, notebook: Any) -> None:
    (jupyterlab.folder / "config.yaml").write_text("llm: {retry: {initial_delay: 30}}")
    option = script(
        jupyterlab.folder, "retry", {"error": {"kind": "unavailable", "message": "Overloaded."}}
    )
    book = notebook(LOAD, f"%%agent {option} --config config.yaml\nBegin.")
    book.start_all()
    card = book.run(1)
    expect(card).to_contain_text("Overloaded.")
    expect(card).to_contain_text("in 28 s")
    book.shot("countdown")
    card.locator("[data-ipyagent=stop]").click()
    book.expect_done(1)
    book.expect_state(1, "cancelled")


@pytest.mark.spec("N24", "D5", "H17")
def test_text_in_a_drawn_graph_stays_text(jupyterlab: Any, notebook: Any) -> None:
    nodes = [Node(id=f"n{n}", data=Message.of(Role.USER, each)) for n, each in enumerate(MARKUP)]
    graph = {"nodes": {node.id: node.to_dict() for node in nodes}, "head_ids": ["n0"]}
    (jupyterlab.folder / "hostile.json").write_text(json.dumps(graph))
    book = notebook(LOAD, "import ipyagent\nipyagent.Session.load('hostile.json')")
    book.start_all()
    image = book.output(1).locator(".jp-RenderedMermaid img")
    expect(image).to_be_visible()
    svg = unquote(image.get_attribute("src")).removeprefix("data:image/svg+xml,")
    elements = list(ElementTree.fromstring(svg).iter())
    texts = ["".join(each.itertext()) for each in elements if each.get("class") == "nodeLabel"]
    wanted = [f"user · n{n}{shorten(each)}" for n, each in enumerate(MARKUP)]
    assert [text.replace(" · ◀ head", "").replace("\u2060", "") for text in texts] == wanted
    names = {each.tag.rpartition("}")[2] for each in elements}
    assert not names & {"script", "iframe", "a", "img", "image", "form", "input", "object", "math"}
    assert [name for each in elements for name, _ in each.items() if name.startswith("on")] == []
