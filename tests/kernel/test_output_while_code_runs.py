"""What code prints is on the card while it runs, though it occupies the main thread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kernels import Kernel, Message, Page, Reply, python, script
from patience import PATIENCE

TRAINING = f"""\
import pathlib, sys, time
print("loaded")
for done in range(101):
    print(f"\\r{{done:3}}%|", end="", file=sys.stderr)
until = time.monotonic() + {PATIENCE}
while not pathlib.Path("seen").exists() and time.monotonic() < until:
    time.sleep(0.02)"""


def run(kernel: Kernel, folder: Path, seen: Callable[[], object]) -> tuple[Reply, list[str], Page]:
    """Run the code; act once its last line is on the card."""
    page, lines = Page(kernel), list[str]()

    def look(message: Message) -> None:
        page(message)
        steps = (page.transcript.now or {}).get("steps", ())
        live = steps[0]["calls"][0]["live"] if steps and steps[0]["calls"] else ""
        if live and live not in lines:
            lines.append(live)
            if live.endswith("100%|"):
                seen()

    cell = f"%%agent {script(folder, python(TRAINING), 'Done.')} --confirm yolo\nBegin."
    return kernel.run(cell, page=look), lines, page


def test_the_card_shows_what_code_prints_while_it_runs(fresh: Kernel, tmp_path: Path) -> None:
    reply, lines, page = run(fresh, tmp_path, (tmp_path / "seen").touch)
    assert lines[-1] == "loaded\n100%|"
    assert page.transcript.now["steps"][0]["calls"][0]["live"] == ""
    assert reply.results[0]["output"] == "loaded\n[stderr]\n100%|"


def test_what_was_shown_before_an_interrupt_is_in_the_result_and_on_the_card(
    fresh: Kernel, tmp_path: Path
) -> None:
    reply, lines, page = run(fresh, tmp_path, fresh.interrupt)
    assert "loaded\n100%|" in lines
    call = page.transcript.now["steps"][0]["calls"][0]
    assert call["status"] == "cancelled"
    assert (call["live"], call["result"]["output"]) == ("loaded\n100%|", "loaded\n[stderr]\n100%|")
    assert "loaded\n[stderr]\n100%|" in reply.results[0]["output"]
