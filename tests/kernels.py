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

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from page_transcript import PageTranscript
from servers.model_server import ModelServer

Message = dict[str, Any]
RUN_JSON = "application/vnd.ipyagent.run+json"


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


class Page:
    """A front end's side of the live card: shakes hands, keeps the transcript, clicks.

    `moments` are what it saw come: each has a `type`, and what the test may want of it.
    """

    def __init__(self, kernel: Kernel, decision: str = "approve", subshell: str | None = None):
        self.kernel, self.decision, self.subshell = kernel, decision, subshell
        self.comm: str | None = None
        self.transcript = PageTranscript()
        self.moments: list[Message] = []
        self.seqs: list[int] = []
        self.on_moment: Callable[[Page, Message], None] = lambda page, moment: None

    def __call__(self, message: Message) -> None:
        content = message["content"]
        if message["msg_type"] == "comm_open":
            state = content["data"].get("state", {})
            if "_esm" in state:
                self.comm = content["comm_id"]
                self.transcript = PageTranscript()
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
        before = copy.deepcopy(self.transcript.now)
        self.transcript.receive(copy.deepcopy(said))
        for moment in moments(before, self.transcript.now):
            self.moments.append(moment)
            self.on_moment(self, moment)
            if moment["type"] == "asked" and self.decision:
                self.decide(moment["approval_id"], self.decision)


def moments(before: Any, now: Any) -> Iterator[Message]:
    """What has come to be between two transcripts, in the order in which it is drawn."""
    if now is None:
        return
    plan, earlier = now["plan"] or {}, (before or {}).get("plan") or {}
    if plan and plan["hash"] != earlier.get("hash"):
        yield {"type": "planned", "plan": plan, "notes": now["notes"]}
    if (asked := plan.get("approval")) and asked != earlier.get("approval"):
        yield {"type": "plan asked", "approval_id": asked["id"], "plan": plan}
    steps = (before or {}).get("steps", ())
    for index, step in enumerate(now["steps"]):
        yield from _moments_of_step(steps[index] if index < len(steps) else {}, step)


def _moments_of_step(before: Message, now: Message) -> Iterator[Message]:
    waiting = now["waiting"] or {}
    if waiting != before.get("waiting") and waiting.get("seconds") is not None:
        yield {"type": "retrying"}
    thinking, thought = ((each.get("thinking") or {}).get("text") for each in (now, before))
    if now["text"] != before.get("text", "") or thinking != thought:
        yield {"type": "streamed", "text": now["text"], "thinking": thinking}
    calls = before.get("calls", ())
    for index, call in enumerate(now["calls"]):
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

    def send(self, kind: str, content: Message, subshell: str | None = None) -> str:
        message = self.client.session.msg(kind, content)
        if subshell:
            message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def interrupt(self) -> None:
        self.manager.interrupt_kernel()

    def run(
        self,
        code: str,
        *,
        answers: list[str] | None = None,
        page: Callable[[Message], None] | None = None,
        on: Callable[[Message], None] = lambda message: None,
        timeout: float = 60,
    ) -> Reply:
        """Execute a cell. Standard input is allowed if there are `answers` or a `page`."""
        allow = answers is not None or page is not None
        request = self.client.execute(code, allow_stdin=allow)
        return self.finish(request, answers=answers, page=page, on=on, timeout=timeout)

    def finish(
        self,
        request: str,
        *,
        answers: list[str] | None = None,
        page: Callable[[Message], None] | None = None,
        on: Callable[[Message], None] = lambda message: None,
        timeout: float = 60,
        lost_after: float | None = None,
    ) -> Reply:
        """Wait until a request has its reply and the kernel is idle again.

        `lost_after`: seconds after which an idle kernel will not reply any more, because ipykernel
        itself was interrupted before or after the cell's code; the reply's status is "lost" then.
        """
        reply, idle, idle_since = Reply(), False, 0.0
        deadline = time.monotonic() + timeout
        while not (idle and reply.content):
            if idle and lost_after is not None:
                idle_since = idle_since or time.monotonic()
                if time.monotonic() > idle_since + lost_after:
                    reply.content = {"status": "lost"}
            assert time.monotonic() < deadline, f"no reply in {timeout} s: {reply}"
            for message in self._iopub():
                if page:
                    page(message)
                if message["parent_header"].get("msg_id") == request:
                    reply.messages.append(message)
                    on(message)
                    idle |= message["content"].get("execution_state") == "idle"
            if asked := self._get(self.client.get_stdin_msg):
                reply.prompts.append(asked["content"]["prompt"])
                self.client.input((answers or []).pop(0))
            if (done := self._get(self.client.get_shell_msg)) and (
                done["parent_header"].get("msg_id") == request
            ):
                reply.content = done["content"]
        return reply

    def value(self, expression: str) -> str:
        """The repr of an expression in the kernel."""
        reply = self.run(f"print(repr({expression}))")
        assert reply.status == "ok", reply.content
        return reply.stdout.strip()

    def _iopub(self) -> Iterator[Message]:
        while message := self._get(self.client.get_iopub_msg, 0.02):
            yield message

    @staticmethod
    def _get(receive: Callable[..., Message], timeout: float = 0.001) -> Message | None:
        try:
            return receive(timeout=timeout)
        except queue.Empty:
            return None


def asking(server: ModelServer) -> dict[str, str]:
    """The environment of a kernel whose model is at that server."""
    return {"IPYAGENT_LLM__MODEL": "openai/test", "IPYAGENT_LLM__API_BASE": f"{server.url}/v1"}


@contextmanager
def kernel(folder: Path, *, loads: bool = True, **environment: str) -> Iterator[Kernel]:
    """A kernel in `folder`, with no keys in its environment, that `loads` the extension."""
    kept = {k: v for k, v in os.environ.items() if "KEY" not in k and not k.startswith("IPYAGENT")}
    env = kept | {"XDG_CONFIG_HOME": str(folder / ".config"), "MPLBACKEND": ""} | environment
    manager, client = _start(folder, env)
    try:
        started = Kernel(manager, client)
        assert not loads or started.run("%load_ext ipyagent").status == "ok"
        yield started
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _start(folder: Path, env: dict[str, str]) -> tuple[KernelManager, BlockingKernelClient]:
    """Start a kernel, again where somebody else has taken one of its ports meanwhile."""
    for attempt in range(3):
        manager = KernelManager(kernel_name="python3")
        manager.start_kernel(cwd=str(folder), env=env)
        client = manager.blocking_client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=60)
        except RuntimeError:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
            if attempt == 2:
                raise
        else:
            return manager, client
    raise AssertionError("the third attempt returns or raises")
