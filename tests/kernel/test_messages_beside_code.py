"""A page's message that arrives while code runs does not affect the code's figures."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_pages import Tab

from kernels import Kernel, Message, Page, python, script

pytestmark = pytest.mark.kernel

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
