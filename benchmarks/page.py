"""What a run of 60 steps costs its page: processor time for each message, in a real Chromium.

    .venv/bin/python benchmarks/page.py

The built widget draws the run in a plain page, a message in each frame; at last an answer streams
in. Beside it, in the same run: all of the card's HTML set again with each message, and frames in
which nothing changes, whose time is subtracted from both.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from playwright.sync_api import CDPSession, Page, Route, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/ui")]

from sample import BEGUN

from ipyagent import schema as s
from ipyagent.agent.approvals import Approvals
from ipyagent.json_types import JsonDict
from ipyagent.ui.feed import Feed

STATIC = ROOT / "src/ipyagent/ui/static"
ADDRESS = "http://page.test/"
STEPS, WINDOW = 60, 150
WAYS = ("ours", "naive", "idle")

PAGE = """<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="/widget.css">
<div id="place"></div>
<script type="module">
import widget from '/widget.js';
const model = {on: (event, receive) => event === 'msg:custom' && (window.receive = receive),
    off() {}, send() {}};
const made = widget();
made.initialize({model});
const place = document.getElementById('place');
made.render({model, el: place});
const html = new Map();
window.ways = {
    ours: (message) => receive(message),
    naive: (message) => {
        message.set.forEach((each) => html.set(each.key, each.html));
        message.drop?.forEach((key) => html.delete(key));
        place.innerHTML = [...html.values()].join('');
    },
    idle: () => {},
};
window.draw = async (way, messages) => {
    for (const message of messages) {
        window.ways[way](message);
        await new Promise(requestAnimationFrame);
    }
};
window.ready = true;
</script>"""

ANSWER = (
    "The **revenue** fell in `Q3` by 36 %.\n\n| region | Q2 | Q3 |\n|--|--:|--:|\n"
    + "".join(f"| r{n} | {n * 7} | {n * 5} |\n" for n in range(12))
    + "\n"
    + "\n\n".join("Word " * 60 for _ in range(5))
)


def events() -> Iterator[s.Event]:
    """Yield a run whose steps say something, and each run some code with output."""
    yield BEGUN
    for step in range(2, STEPS + 2):
        code = f"part_{step} = sales[sales.region == 'North']\n" * 8
        call = s.ToolCall(id=f"c{step}", name="run_python", arguments={"code": code})
        preview = s.Preview(kind="code", text=code, language="python")
        running = s.ToolExecution(call=call, status=s.ToolStatus.RUNNING, preview=preview)
        result = s.ToolResult(output="out\n" * 12)
        done = {"status": s.ToolStatus.SUCCESS, "duration": 0.4, "result": result}
        yield from _message(step, "I look at this part. " * 10, 21, call)
        yield s.ToolStarted(step=step, execution=running)
        yield s.ToolRunning(step=step, call_id=call.id)
        yield s.ToolOutput(step=step, call_id=call.id, text="a\nb")
        yield s.ToolOutput(step=step, call_id=call.id, text="a\nb\nc")
        yield s.ToolFinished(step=step, execution=running.model_copy(update=done))
        yield s.StepFinished(step=step)
    yield from _message(STEPS + 2, ANSWER, 9)


def _message(step: int, text: str, size: int, *calls: s.ToolCall) -> Iterator[s.Event]:
    yield s.StepStarted(step=step)
    yield s.MessageStarted(step=step)
    for start in range(0, len(text), size):
        yield s.MessageDelta(step=step, kind="text", text=text[start : start + size])
    content = (s.TextContent(text=text), *calls)
    yield s.MessageFinished(step=step, message=s.Message(role=s.Role.ASSISTANT, content=content))


async def messages() -> list[JsonDict]:
    """Return what the kernel sends, where no two events come at once."""
    sent: list[JsonDict] = []
    feed, state = Feed(Approvals(), lambda: None), None
    feed.followers.append(sent.append)
    for event in events():
        state = s.advance(state, event)
        feed(event, state)
        feed.flush()
    return json.loads(json.dumps(sent))


def spent(page: Page, way: str, sent: Sequence[JsonDict]) -> tuple[float, float]:
    """Return the milliseconds of a message at the beginning, and of one at the end."""
    page.route(f"{ADDRESS}**", _serve)
    page.goto(ADDRESS)
    page.wait_for_function("window.ready")
    metrics = page.context.new_cdp_session(page)
    metrics.send("Performance.enable", {"timeDomain": "threadTicks"})

    def draw(some: Sequence[JsonDict]) -> float:
        before = _task_time(metrics)
        page.evaluate("([way, messages]) => draw(way, messages)", [way, some])
        return (_task_time(metrics) - before) * 1_000 / len(some)

    first = draw(sent[:WINDOW])
    page.evaluate("scrollTo(0, document.body.scrollHeight)")  # as who follows the run
    draw(sent[WINDOW:-WINDOW])
    return first, draw(sent[-WINDOW:])


def _task_time(metrics: CDPSession) -> float:
    found = metrics.send("Performance.getMetrics")["metrics"]
    return float(next(each["value"] for each in found if each["name"] == "TaskDuration"))


def _serve(route: Route) -> None:
    name = route.request.url.removeprefix(ADDRESS)
    kind = {"widget.js": "text/javascript", "widget.css": "text/css"}.get(name, "text/html")
    body = (STATIC / name).read_text() if kind != "text/html" else PAGE
    route.fulfill(body=body, content_type=kind)


def main() -> None:
    """Measure and print."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    sent = asyncio.run(messages())
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        rounds = [[spent(browser.new_page(), way, sent) for way in WAYS] for _ in range(3)]
        browser.close()
    print(f"{'ms a message':16}{'beginning':>11}{f'{STEPS} steps':>11}")
    times = {
        way: [median(each[number][at] for each in rounds) for at in (0, 1)]
        for number, way in enumerate(WAYS)
    }
    for name, (first, last) in times.items():
        print(f"{name:16}{first:11.2f}{last:11.2f}")
    for at, name in enumerate(("beginning", "end")):
        ours, naive, idle = (times[way][at] for way in WAYS)
        print(f"ours / naive at the {name}: {(ours - idle) / (naive - idle):.3f}")


if __name__ == "__main__":
    main()
