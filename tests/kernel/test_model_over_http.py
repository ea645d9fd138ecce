"""Models over HTTP in kernels, and what a kernel imports for its model."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernels import Kernel, Message, Page, kernel
from page_blocks import PageBlocks
from patience import PATIENCE
from servers.model_server import Cut, ModelServer, answer, delta, failure, stream

pytestmark = pytest.mark.kernel


# The whole way in a real kernel: a model server speaking OpenAI's format over HTTP ----------------


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Kernel, ModelServer]]:
    with (
        ModelServer([]) as server,
        kernel(
            tmp_path_factory.mktemp("served"),
            IPYAGENT_LLM__API_BASE=server.url,
            IPYAGENT_LLM__MODEL="openai/test-model",
            IPYAGENT_LLM__RETRY__INITIAL_DELAY="0.05",
            OPENAI_API_KEY="sk-test-0123456789abcdef",
        ) as started,
    ):
        yield started, server


PNG = "import matplotlib.pyplot as plt\n_ = plt.plot([1, 2])"


def test_thinking_calls_and_the_answer_use_one_connection(
    served: tuple[Kernel, ModelServer],
) -> None:
    kernel, server = served
    server.replies = [
        answer("Let me see.", thinking="Hm.", calls=[("run_python", {"code": "seven = 7"})]),
        answer("It is **7**."),
    ]
    before = server.connections
    reply = kernel.run("%%agent\nSet seven.", page=Page(kernel))
    run = reply.run
    assert [step["message"]["content"][0]["type"] for step in run["steps"]] == ["thinking", "text"]
    assert run["steps"][0]["usage"]["prompt_tokens"] == 11
    assert kernel.value("seven") == "7"
    assert reply.stderr == ""
    assert server.connections - before <= 1
    assert server.requests[-1].headers["authorization"] == "Bearer sk-test-0123456789abcdef"
    sent = server.requests[-1].body["messages"]
    assert [m["role"] for m in sent] == ["system", "user", "assistant", "tool"]
    assert sent[2]["tool_calls"][0]["id"] == sent[3]["tool_call_id"]


@pytest.mark.parametrize(
    ("faults", "outcome"),
    [
        ([failure(429, headers={"Retry-After": "0"}), answer("Ok.")], "done"),
        ([failure(500), answer("Ok.")], "done"),
        ([answer("Half of it").cut(200, Cut("rst")), answer("Ok.")], "done"),
        ([failure(503)] * 3, "error"),
        ([failure(401, "bad key")], "error"),
        ([stream("not json", delta(content="x"))] * 3, "error"),
    ],
)
def test_failures_of_the_service_end_in_an_answer_or_one_clear_card(
    served: tuple[Kernel, ModelServer], faults: list[object], outcome: str
) -> None:
    kernel, server = served
    server.replies = list(faults)
    reply = kernel.run("%%agent\nBegin.")
    assert reply.status == "ok"
    assert reply.run["status"] == outcome
    text = str(reply.of("display_data"))
    assert "Traceback" not in text + reply.stdout + reply.stderr
    assert "sk-test-0123456789abcdef" not in str(reply.messages)
    server.replies = [answer("Again.")]
    assert kernel.run("%%agent\nAnd now?").run["status"] == "done"


def test_a_model_with_vision_gets_a_figure_as_an_image_and_others_get_a_note(
    served: tuple[Kernel, ModelServer],
) -> None:
    kernel, server = served
    for model, sees in (("openai/gpt-4o", True), ("openai/test-model", False)):
        server.replies = [answer(calls=[("run_python", {"code": PNG})]), answer("A line.")]
        run = kernel.run(f"%%agent -m {model} --confirm yolo\nPlot.").run
        assert run["steps"][0]["executions"][0]["result"]["images"]
        body = server.requests[-1].raw
        assert (b"data:image/png;base64," in body) is sees
        if not sees:
            assert b"iVBOR" not in body


def test_the_page_gets_text_in_few_messages_and_a_snapshot_when_it_asks(
    served: tuple[Kernel, ModelServer],
) -> None:
    kernel, server = served
    text, heard = "".join(f"{i:04d} " for i in range(2000)), threading.Event()
    server.replies = [answer(text).pause(heard, after=1000)]
    page, snapshots = Page(kernel), list[Message]()

    def watch(message: Message) -> None:
        page(message)
        content = message["content"].get("data", {}).get("content", {})
        if page.moments and content.get("type") == "snapshot":
            snapshots.append(content)
            heard.set()

    def ask_again(page: Page, moment: Message) -> None:
        if moment["type"] == "streamed" and not snapshots:
            page.say({"type": "resync"})

    page.on_moment = ask_again
    kernel.run("%%agent\nBegin.", page=watch)
    pieces = [each for each in page.moments if each["type"] == "streamed"]
    assert 1 < len(pieces) < 200
    loaded = PageBlocks()
    loaded.receive(snapshots[0])
    (so_far,) = loaded.texts()
    assert so_far
    assert text.startswith(so_far)
    assert page.card.texts()[0] == text.strip()


def test_an_interrupt_while_the_model_streams_closes_the_connection(
    served: tuple[Kernel, ModelServer],
) -> None:
    kernel, server = served
    never = threading.Event()
    server.replies = [answer("A long answer that never ends.").pause(never, after=4)]
    page, stopped = Page(kernel), []

    def stop(_page: Page, moment: dict[str, object]) -> None:
        if moment["type"] == "streamed" and not stopped:
            stopped.append(moment)
            kernel.interrupt()

    page.on_moment = stop
    reply = kernel.run("%%agent\nBegin.", page=page)
    assert reply.content["ename"] == "AgentStopped"
    assert server.requests[-1].closed.wait(PATIENCE)
    never.set()
    server.replies = [answer("Back.")]
    assert kernel.run("%%agent\nAnd now?").run["status"] == "done"


# A kernel imports what its model needs, and nothing more ------------------------------------------

AFTER_LOADING = """\
import sys, threading
for thread in threading.enumerate():
    if thread.name == "ipyagent-import":
        thread.join()
warming = any(thread.name == "ipyagent-warm-up" for thread in threading.enumerate())"""


def test_the_models_of_the_service_are_listed_to_choose_from(
    served: tuple[Kernel, ModelServer],
) -> None:
    kernel, server = served
    server.pages = {"/v1/models": {"data": [{"id": "test-model"}, {"id": "test-other"}]}}
    assert kernel.run("%agent model").stdout.splitlines() == [
        "openai/test-model (it was chosen explicitly)",
        "  %agent model offline/explorer  (follows fixed rules, not a language model)",
        "  %agent model openai/test-other  (its service lists it)",
    ]
    chosen = kernel.run("%agent model openai/mistaken").stdout
    kernel.run("%agent model openai/test-model")
    assert "openai/mistaken is not there. What is there: openai/test-model, " in chosen


def imports_litellm(kernel: Kernel) -> bool:
    """Return whether LiteLLM is imported, or is being imported."""
    kernel.run(AFTER_LOADING)
    return kernel.value("warming or 'litellm' in sys.modules") == "True"


def test_the_explorer_needs_no_litellm(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n3,4\n")
    with kernel(tmp_path) as started:
        started.run("import pandas as pd; df = pd.read_csv('a.csv')")
        run = started.run("%%agent\nmean of x in df", page=Page(started)).run
        assert (run["status"], run["model"]) == ("done", "offline/explorer")
        assert [e["status"] for step in run["steps"] for e in step["executions"]] == ["success"]
        assert "offline/explorer" in started.run("%agent status").stdout
        started.run("import ipyagent; ipyagent.last")
        started.run("%agent tools")
        assert not imports_litellm(started)


@pytest.mark.slow
def test_litellm_is_imported_in_advance_for_a_model_that_needs_it(tmp_path: Path) -> None:
    with kernel(tmp_path, IPYAGENT_LLM__MODEL="bedrock/nova") as started:
        assert imports_litellm(started)
    with kernel(tmp_path) as started:
        started.run("%agent model bedrock/nova")
        assert imports_litellm(started)


def test_a_service_that_is_asked_directly_needs_no_litellm(tmp_path: Path) -> None:
    with ModelServer([answer("Hello there.")]) as server:
        settings = {"IPYAGENT_LLM__MODEL": "openai/gpt-4o", "IPYAGENT_LLM__API_BASE": server.url}
        with kernel(tmp_path, OPENAI_API_KEY="none", **settings) as started:
            run = started.run("%%agent\nSay hello.", page=Page(started)).run
            assert (run["status"], run["model"]) == ("done", "openai/gpt-4o")
            assert "Hello there." in str(run["steps"])
            assert started.value("'litellm' in __import__('sys').modules") == "False"
