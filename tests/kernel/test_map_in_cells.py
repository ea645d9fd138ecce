"""`ipyagent.map` in a cell: progress in the page, and Stop."""

from __future__ import annotations

from pathlib import Path

from kernels import Kernel

CODE = """
import asyncio, json, os, signal
import ipyagent
from ipyagent.schema import StreamChunk

class Echo:
    model, context_window, asked, stops_at = "echo", None, 0, 0
    async def stream(self, request):
        self.asked += 1
        if self.asked == self.stops_at:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        yield StreamChunk(data=request.messages[0].text.upper())
        yield StreamChunk(type="finish", data="stop")

echo = Echo()
"""


def test_a_cell_shows_how_far_it_is_and_leaves_a_table(shared: Kernel) -> None:
    shared.run(CODE)
    reply = shared.run("labels = ipyagent.map('Say {word}', ['a', 'b', 'a'], model=echo)")
    assert reply.status == "ok"
    (shown,) = (each["data"] for each in reply.of("display_data"))
    assert "application/vnd.jupyter.widget-view+json" in shown
    assert shared.value("labels.value.tolist()") == "['SAY A', 'SAY B', 'SAY A']"


def test_a_cell_that_is_stopped_says_so_in_one_line_and_goes_on_where_it_was(
    shared: Kernel, folder: Path
) -> None:
    shared.run(CODE)
    shared.run("echo.stops_at = 50")
    ask = "labels = ipyagent.map('Number {n}', range(60), model=echo, at_once=4)"
    stopped = shared.run(ask)
    assert stopped.status == "error"
    assert [each["ename"] for each in stopped.of("error")] == ["AgentInterrupted"]
    assert len(stopped.of("error")[0]["traceback"]) == 1
    assert shared.run(ask).status == "ok"
    assert shared.value("labels.value.tolist() == [f'NUMBER {n}' for n in range(60)]") == "True"
    assert int(shared.value("echo.asked")) <= 60 + 4
    assert (folder / ".ipyagent/answers.db").exists()
