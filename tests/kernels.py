"""A real kernel, driven as a front end drives it: execute, answer stdin, click, interrupt."""

from __future__ import annotations

import copy
import os
import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
import zmq
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from page_blocks import PageBlocks
from patience import PATIENCE
from servers.model_server import ModelServer

Message = dict[str, Any]
RUN_JSON = "application/vnd.ipyagent.run+json"
FORGET = """\
import sys
if "ipyagent.wiring.runtime" in sys.modules:
    sys.modules["ipyagent.wiring.runtime"]._runtime.last_run = None
if "ipyagent.magic.notebook" in sys.modules:
    get_ipython().meta.pop(sys.modules["ipyagent.magic.notebook"].Notebook, None)
"""
"""What unloading keeps: the newest run, and the notebook with its settings, model and session."""


@dataclass
class Reply:
    """All that a request led to."""

    messages: list[Message] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    content: Message = field(default_factory=dict)

    def of(self, kind: str) -> list[Message]:
        return [m["content"] for m in self.messages if m["msg_type"] == kind]

    @property
    def status(self) -> str:
        return str(self.content["status"])

    @property
    def stdout(self) -> str:
        return "".join(c["text"] for c in self.of("stream") if c["name"] == "stdout")

    @property
    def stderr(self) -> str:
        return "".join(c["text"] for c in self.of("stream") if c["name"] == "stderr")

    @property
    def run(self) -> Message:
        """The run in the static mirror, as the notebook would save it."""
        found = [
            c["data"][RUN_JSON]
            for c in self.of("update_display_data") + self.of("display_data")
            if RUN_JSON in c["data"]
        ]
        assert len(found) == 1, f"{len(found)} mirrors; {self.stderr}{self.content}"
        return found[0]

    @property
    def executions(self) -> list[Message]:
        """The calls of the run, in order."""
        return [each for step in self.run["steps"] for each in step["executions"]]

    @property
    def results(self) -> list[Message]:
        return [each["result"] for each in self.executions]


class Page:
    """A front end's side of the live card: shakes hands, keeps the blocks, clicks.

    `moments` are what it saw come: each has a `type`, and what the test may want of it.
    """

    def __init__(self, kernel: Kernel, decision: str = "approve", subshell: str | None = None):
        self.kernel, self.decision, self.subshell = kernel, decision, subshell
        self.comm: str | None = None
        self.card = PageBlocks()
        self.moments: list[Message] = []
        self.seqs: list[int] = []
        self.on_moment: Callable[[Page, Message], None] = lambda page, moment: None

    def __call__(self, message: Message) -> None:
        content = message["content"]
        if message["msg_type"] == "comm_open":
            state = content["data"].get("state", {})
            if "_esm" in state:
                self.comm = content["comm_id"]
                self.card = PageBlocks()
                self.say({"type": "init", "id": "page"})
        elif message["msg_type"] == "comm_msg" and content["comm_id"] == self.comm:
            self._hear(content["data"].get("content", {}))

    def say(self, content: Message) -> None:
        data = {"method": "custom", "content": content}
        self.kernel.send("comm_msg", {"comm_id": self.comm, "data": data}, self.subshell)

    def decide(self, approval_id: str, decision: str, **more: object) -> None:
        answer = {"decision": decision, "reason": "", **more}
        self.say({"type": "decide", "approval_id": approval_id, "answer": answer})

    def _hear(self, said: Message) -> None:
        if said.get("type") not in ("snapshot", "changes"):
            return
        if said["type"] == "changes":
            self.seqs.append(said["seq"])
        before = copy.deepcopy(self.card)
        self.card.receive(copy.deepcopy(said))
        for moment in moments(before, self.card):
            self.moments.append(moment)
            self.on_moment(self, moment)
            if moment["type"] == "asked" and self.decision:
                self.decide(moment["approval_id"], self.decision)


def moments(before: PageBlocks, now: PageBlocks) -> Iterator[Message]:
    """What has come to be between two states of a card, in the order in which it is drawn."""
    plan, asked = now.own("r/p/a") or {}, (now.own("r/p/a") or {}).get("approval")
    if asked and asked != (before.own("r/p/a") or {}).get("approval"):
        html = now.blocks["r/p"]["html"]
        yield {"type": "plan asked", "approval_id": asked["id"], "plan": plan, "html": html}
    for key, *_ in now.list():
        own = now.own(key)
        if own and own["type"] == "countdown" and own != before.own(key):
            yield {"type": "retrying"}
    texts, thoughts = "".join(now.texts()), "".join(now.thoughts())
    if (texts, thoughts) != ("".join(before.texts()), "".join(before.thoughts())):
        yield {"type": "streamed", "text": "".join(now.texts()[-1:]), "thinking": thoughts}
    calls = before.calls()
    for index, call in enumerate(now.calls()):
        earlier = calls[index] if index < len(calls) else {}
        asked = call["approval"] or {}
        if asked and asked != earlier.get("approval"):
            yield {"type": "asked", "approval_id": asked["id"], "call": call}
        if call["status"] != earlier.get("status"):
            yield {"type": call["status"], "call": call}


class Kernel:
    """A running kernel and a client of it."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self.manager, self.client = manager, client

    def end(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def send(self, kind: str, content: Message, subshell: str | None = None) -> str:
        message = self.client.session.msg(kind, content)
        if subshell:
            message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def interrupt(self) -> None:
        self.manager.interrupt_kernel()

    def reset(self, folder: Path) -> None:
        """Begin anew in that folder, as far as one process can: not with other variables of it."""
        lines = ["%unload_ext ipyagent", FORGET, "%reset -f", f"%cd -q {folder}"]
        for code in (*lines, "%load_ext ipyagent"):
            assert (reply := self.run(code)).status == "ok", reply

    def run(
        self,
        code: str,
        *,
        answers: list[str] | None = None,
        page: Callable[[Message], None] | None = None,
        on: Callable[[Message], None] = lambda message: None,
        patience: float = PATIENCE,
    ) -> Reply:
        """Execute a cell. Standard input is allowed if there are `answers` or a `page`."""
        allow = answers is not None or page is not None
        request = self.client.execute(code, allow_stdin=allow)
        return self.finish(request, answers=answers, page=page, on=on, patience=patience)

    def finish(
        self,
        request: str,
        *,
        answers: list[str] | None = None,
        page: Callable[[Message], None] | None = None,
        on: Callable[[Message], None] = lambda message: None,
        may_be_lost: bool = False,
        patience: float = PATIENCE,
    ) -> Reply:
        """Wait until a request has its reply and the kernel is idle again.

        `may_be_lost`: an interrupt of ipykernel itself, before or after the cell's code, leaves
        an idle kernel that never replies. The reply to a later request tells, and the status is
        "lost" then.
        """
        reply, idle, later = Reply(), False, ""
        deadline = time.monotonic() + patience
        while not (idle and reply.content):
            assert time.monotonic() < deadline, f"no reply in {patience} s: {reply}"
            if idle and may_be_lost and not later:
                later = self.client.kernel_info()
            self._wait(1)
            for message in self._iopub():
                if page:
                    page(message)
                if message["parent_header"].get("msg_id") == request:
                    reply.messages.append(message)
                    on(message)
                    idle |= message["content"].get("execution_state") == "idle"
            if asked := self._get(self.client.stdin_channel):
                reply.prompts.append(asked["content"]["prompt"])
                self.client.input((answers or []).pop(0))
            while done := self._get(self.client.shell_channel):
                if done["parent_header"].get("msg_id") == request:
                    reply.content = done["content"]
                elif later and done["parent_header"].get("msg_id") == later:
                    reply.content = reply.content or {"status": "lost"}
        return reply

    def value(self, expression: str) -> str:
        """The repr of an expression in the kernel."""
        reply = self.run(f"print(repr({expression}))")
        assert reply.status == "ok", reply.content
        return reply.stdout.strip()

    def listen(self, page: Callable[[Message], None], holds: Callable[[], Any]) -> None:
        """Pass messages to the page until the condition is true."""
        deadline = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < deadline, f"not in {PATIENCE} s"
            self._wait(0.02)
            for message in self._iopub():
                page(message)

    def create_subshell(self) -> str:
        """Return the id of a new subshell."""
        self.client.control_channel.send(self.client.session.msg("create_subshell_request"))
        return str(self.client.get_control_msg(timeout=PATIENCE)["content"]["subshell_id"])

    def wait_until_ready(self) -> None:
        """Wait until the kernel answers, and what it publishes arrives here."""
        deadline = time.monotonic() + PATIENCE
        has_replied = has_published = False
        while not (has_replied and has_published):
            if not self.manager.is_alive() or time.monotonic() > deadline:
                raise RuntimeError("the kernel does not start")
            self.client.kernel_info()
            self._wait(0.1)
            has_replied |= self._get(self.client.shell_channel) is not None
            has_published |= self._get(self.client.iopub_channel) is not None

    def _wait(self, seconds: float) -> None:
        """Wait until there is a message."""
        client, poller = self.client, zmq.Poller()
        for channel in (client.iopub_channel, client.stdin_channel, client.shell_channel):
            poller.register(channel.socket, zmq.POLLIN)
        poller.poll(seconds * 1000)

    def _iopub(self) -> Iterator[Message]:
        while message := self._get(self.client.iopub_channel):
            yield message

    @staticmethod
    def _get(channel: Any) -> Message | None:
        """Return a message that is there."""
        try:
            return channel.get_msg(timeout=0)
        except queue.Empty:
            return None


def python(code: str, **more: Any) -> Message:
    """A model's reply that runs code."""
    return {"calls": [{"name": "run_python", "arguments": {"code": code}}], **more}


def script(folder: Path, *replies: Any, name: str = "script") -> str:
    """Write replies of a model; return the option of a cell that plays them."""
    (folder / f"{name}.yaml").write_text(yaml.safe_dump([*replies]))
    return f"-m scripted/{name}.yaml"


def run_code(kernel: Kernel, folder: Path, code: str) -> tuple[Reply, Message]:
    """Let an agent run code without a question; return the reply, and the result of the code."""
    option = script(folder, python(code), "Done.")
    reply = kernel.run(f"%%agent {option} --confirm yolo\nBegin.")
    assert reply.status == "ok", reply
    return reply, reply.results[0]


def asking(server: ModelServer) -> dict[str, str]:
    """The environment of a kernel whose model is at that server."""
    return {"IPYAGENT_LLM__MODEL": "openai/test", "IPYAGENT_LLM__API_BASE": f"{server.url}/v1"}


@contextmanager
def kernel(folder: Path, *, loads: bool = True, **environment: str) -> Iterator[Kernel]:
    """A kernel in `folder`, with no keys in its environment, that `loads` the extension."""
    kept = {k: v for k, v in os.environ.items() if "KEY" not in k and not k.startswith("IPYAGENT")}
    kept.pop("PYTHONUNBUFFERED", None)  # a user's kernel keeps text until it is flushed
    own = {"XDG_CONFIG_HOME": str(folder / ".config"), "MPLBACKEND": ""}
    # What is asked about is what most tests are about.
    env = kept | own | {"IPYAGENT_AGENT__LOOK_FREELY": "false"} | environment
    started = _start(folder, env)
    try:
        assert not loads or started.run("%load_ext ipyagent").status == "ok"
        yield started
    finally:
        started.end()


def _start(folder: Path, env: dict[str, str]) -> Kernel:
    """Start a kernel, again where somebody else has taken one of its ports meanwhile."""
    for attempt in range(3):
        manager = KernelManager(kernel_name="python3")
        manager.start_kernel(cwd=str(folder), env=env)
        client = manager.blocking_client()
        client.start_channels()
        started = Kernel(manager, client)
        try:
            started.wait_until_ready()
        except RuntimeError:
            started.end()
            if attempt == 2:
                raise
        else:
            return started
    raise AssertionError("the third attempt returns or raises")
