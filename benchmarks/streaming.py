"""What drawing a long answer costs while it streams in: CPU of the page for each message.

A real Chromium draws the built widget in a plain page. An answer of mixed Markdown grows to 100 kB
in messages of 16 characters, four tokens, as the kernel sends them 25 times a second at 100 tokens
a second. CPU is Chromium's own `TaskDuration`, at the beginning and at the end of the answer; the
naive way, all of the Markdown again with each message, is measured beside it in the same run.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from playwright.sync_api import CDPSession, Page, Route, sync_playwright

STATIC = Path(__file__).parents[1] / "src/ipyagent/ui/static"
ADDRESS = "http://streaming.test/"

SIZE, MESSAGE, WINDOW = 100_000, 16, 150

PAGE = """<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="/widget.css">
<div id="place"></div>
<script type="module">
import widget from '/widget.js';
const model = {on: (_, receive) => (window.receive = receive), off() {}, send() {}};
const made = widget();
made.initialize({model});
made.render({model, el: document.getElementById('place')});
window.longest = 0;
new PerformanceObserver(list => list.getEntries().forEach(each =>
    (window.longest = Math.max(window.longest, each.duration)))).observe({type: 'longtask'});
const frame = () => new Promise(requestAnimationFrame);
let seq = 0;
window.begin = run => window.receive({op: 'snapshot', seq: (seq = 0), run, open: null,
    approvals: {}, plan_approval: null, retry: null});
window.grow = async (texts) => {
    for (const text of texts) {
        const delta = {type: 'message_delta', step: 1, kind: 'text', text};
        window.receive({op: 'events', seq: ++seq, events: [delta]});
        await frame();
    }
};
window.redraw = async (run, texts) => {
    for (const text of texts) {
        const content = [{type: 'text', text}];
        const step = {...run.steps[0], message: {...run.steps[0].message, content}};
        window.receive({op: 'snapshot', seq: ++seq, run: {...run, steps: [step]}, open: null,
            approvals: {}, plan_approval: null, retry: null});
        await frame();
    }
};
window.ready = true;
</script>"""

SECTION = """## Part {n}

The North lost **{n} %** against the quarter before, because of `units` and not of
`unit_price`: see the [method](https://example.org/{n}) and the *weeks* that follow, in which
$x_{n} = \\frac{{{n}}}{{2}}$.

1. The drop begins in week {n}, when two of three shops were closed for repairs.
2. It ends three weeks later, and what was lost did not come back.

| week | units | price |
|:--|--:|--:|
| {n} | 1,204 | 9.99 |
| {n}a | 1,377 | 9.99 |

$$
\\sum_{{i=0}}^{{{n}}} x_i^2 = \\hat\\beta_{{{n}}}
$$

```python
weeks = sales.query("region == 'North'").groupby("week")["units"].sum()
for week, units in weeks.items():  # part {n}
    print(f"{{week}}: {{units:,}}")
```

"""


def answer() -> str:
    """100 kB of prose, lists, tables, formulas and code."""
    text = "".join(SECTION.format(n=n) for n in range(1, 200))
    return text[:SIZE]


def run() -> dict[str, Any]:
    """A run of one step that has said nothing."""
    usage = dict.fromkeys(
        ("prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_creation_tokens"), 0
    )
    message = {"role": "assistant", "content": [], "synthetic": False, "timestamp": ""}
    step = {"number": 1, "closing": False, "message": None, "finish_reason": None, "usage": usage}
    step |= {"cost_usd": None, "thinking_seconds": None, "executions": [], "notes": []}
    texts = ("session_id", "trace_id", "prompt", "context", "model", "confirm_mode")
    return {
        **dict.fromkeys(texts, ""),
        "id": "run",
        "max_steps": 1,
        "verbose": 0,
        "status": "running",
        "stop_reason": None,
        "plan": [],
        "plan_id": None,
        "error": None,
        "notes": [],
        "duration": None,
        "started_at": "",
        "steps": [{**step, "message": {**message, "usage": None}}],
    }


class Drawn:
    """The widget in a page of its own."""

    def __init__(self, page: Page) -> None:
        page.route(f"{ADDRESS}**", self._serve)
        page.goto(ADDRESS)
        page.wait_for_function("window.ready")
        self.page: Page = page
        self.metrics: CDPSession = page.context.new_cdp_session(page)
        self.metrics.send("Performance.enable")

    @staticmethod
    def _serve(route: Route) -> None:
        name = route.request.url.removeprefix(ADDRESS)
        kind = {"widget.js": "text/javascript", "widget.css": "text/css"}.get(name, "text/html")
        body = (STATIC / name).read_text() if kind != "text/html" else PAGE
        route.fulfill(body=body, content_type=kind)

    def spent(self) -> float:
        """Seconds of work that the page has done."""
        found = self.metrics.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in found if each["name"] == "TaskDuration"))

    def longest(self) -> float:
        """Milliseconds of the longest task since the last question; 50 where none was longer."""
        return max(50.0, float(self.page.evaluate("[longest, longest = 0][0]")))

    def per_message(self, code: str, *arguments: Any) -> float:
        """Milliseconds that each of `WINDOW` messages costs."""
        # As somebody reads who follows the text.
        self.page.evaluate("scrollTo(0, document.body.scrollHeight)")
        before = self.spent()
        self.page.evaluate(code, list(arguments))
        return (self.spent() - before) * 1_000 / WINDOW


def pieces(text: str, size: int) -> list[str]:
    """`text` in parts of `size`."""
    return [text[start : start + size] for start in range(0, len(text), size)]


def streamed(drawn: Drawn, text: str) -> tuple[float, float, float]:
    """Milliseconds for a message at the beginning and at the end, and the longest task."""
    window = WINDOW * MESSAGE
    open_run = run()
    open_run["steps"][0]["message"] = None
    drawn.page.evaluate("run => begin(run)", open_run)
    grow = "([texts]) => grow(texts)"
    drawn.page.evaluate(grow, [pieces(text[:window], MESSAGE)])
    drawn.longest()
    first = drawn.per_message(grow, pieces(text[window : 2 * window], MESSAGE))
    drawn.page.evaluate(grow, [pieces(text[2 * window : -window], 10 * MESSAGE)])
    last = drawn.per_message(grow, pieces(text[-window:], MESSAGE))
    return first, last, drawn.longest()


def redrawn(drawn: Drawn, text: str) -> tuple[float, float, float]:
    """The same where each message is followed by all of the Markdown again."""
    window, few = WINDOW * MESSAGE, 10
    ends = range(window, 2 * window, MESSAGE)
    code = "([run, texts]) => redraw(run, texts)"
    drawn.page.evaluate("run => begin(run)", run())
    first = drawn.per_message(code, run(), [text[:end] for end in ends])
    drawn.longest()
    ends = range(len(text) - few * MESSAGE, len(text), MESSAGE)
    last = drawn.per_message(code, run(), [text[:end] for end in ends]) * WINDOW / few
    return first, last, drawn.longest()


def main() -> None:
    """Measure and print."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        text = answer()
        ours = streamed(Drawn(browser.new_page()), text)
        naive = redrawn(Drawn(browser.new_page()), text)
        browser.close()
    print(f"{'':24}{'beginning':>11}{'end of 100 kB':>15}{'longest task':>14}")
    for name, (first, last, longest) in (("a message, sealed", ours), ("all of it again", naive)):
        print(f"{name:24}{first:8.2f} ms{last:12.2f} ms{longest:11.0f} ms")
    print(f"end / beginning         {ours[1] / ours[0]:8.2f} times (goal 2.00)")
    print(f"sealed / naive, the end {ours[1] / naive[1]:8.3f} times (goal 0.100)")


if __name__ == "__main__":
    main()
