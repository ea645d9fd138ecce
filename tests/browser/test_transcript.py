"""Saved runs in JupyterLab without a kernel: drawn well, reached by keyboard, read by everyone."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest
from playwright.sync_api import Page, expect
from rich_run import live_run, saved_run, snapshot
from test_hostile_browser import Site, page, site
from test_what_survives import moments

from ipyagent.schema import Run
from ipyagent.ui.static_html import RUN_MIME, saved_bundle

__all__ = ["page", "site"]

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.same_page]

THEMES = ["JupyterLab Light", "JupyterLab Dark"]

ANSWER = r"""
## What the fit says

The slope is $\hat\beta = (X^\top X)^{-1}X^\top y$, at a cost of $5 to $10 a month, and

$$
\operatorname{Var}(\hat\beta) = \sigma^2 \begin{pmatrix} \sum x_i^2 & \sum x_i \\
\sum x_i & n \end{pmatrix}^{-1}
$$

1. First, look at the *residuals*: `model.resid`
   ```python
   residuals = y - X @ beta  # one for each row
   residuals.std()
   ```
2. Then at the [method](https://example.org/method).

| region | comment | Q2 | Q3 |
|:--|:--|--:|--:|
| North | The drop begins in the week of 18 August: two of three shops were closed | 131.9 | 84.2 |
| South | Held | 99.1 | 101.7 |

שלום, זה טקסט מימין לשמאל עם `code` בתוכו.

> A quote, with averyveryveryveryveryveryveryveryveryveryveryveryveryveryverylongwordwithoutabreak

```sql
SELECT region, sum(revenue) FROM sales WHERE quarter = 3 GROUP BY region ORDER BY 2 DESC LIMIT 10
```
"""


def answered(text: str) -> dict[str, Any]:
    """The rich run, with another answer."""
    run: dict[str, Any] = saved_run()
    run["steps"][-1]["message"]["content"][-1]["text"] = text
    return run


@pytest.fixture
def reopened(notebook: Any) -> Any:
    """Opens saved runs in JupyterLab, without a kernel."""

    def open_(*runs: Any) -> Any:
        bundles = [saved_bundle(Run.from_dict(run)) for run in runs]
        outputs = [nbformat.v4.new_output("display_data", each) for each in bundles]
        return notebook(nbformat.v4.new_code_cell("%%agent", outputs=outputs), ready=False)

    return open_


def in_theme(book: Any, theme: str) -> None:
    book.page.evaluate(
        "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme
    )
    attribute = "true" if "Light" in theme else "false"
    book.page.wait_for_selector(f"body[data-jp-theme-light={attribute}]", state="attached")


# The text that stands too faintly on what is under it, with its contrast.
FAINT = """
(root) => {
    const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    const rgba = (color) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = color;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const over = ([r, g, b, a], under) =>
        [r, g, b].map((v, i) => v * a + under[i] * (1 - a)).concat(1);
    const ground = (element) => {
        if (element === null) return rgba('white');
        const own = rgba(getComputedStyle(element).backgroundColor);
        return own[3] === 1 ? own : over(own, ground(element.parentElement));
    };
    const light = (color) => {
        const [r, g, b] = color.map((v) => v / 255).map((v) =>
            v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    const faint = new Set();
    let count = 0;
    while (texts.nextNode()) {
        const element = texts.currentNode.parentElement;
        if (!texts.currentNode.data.trim() || !element.checkVisibility()) continue;
        if (getComputedStyle(element).fontSize === '0px') continue;  // drawn as a mask
        count += 1;
        const under = ground(element);
        const pair = [over(rgba(getComputedStyle(element).color), under), under].map(light).sort();
        const contrast = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
        if (contrast < 4.5) {
            faint.add(`${element.className || element.localName}: ${contrast.toFixed(2)}`);
        }
    }
    return {count, faint: [...faint]};
}
"""


WIDE = "\n".join(
    f"| region {row} |" + "".join(f" quarter {row * n} |" for n in range(30))
    if row
    else "|" + " name |" * 31 + "\n|" + "---|" * 31
    for row in range(3)
)


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_a_wide_table_scrolls_under_its_first_column_and_fades_where_it_is_cut(
    reopened: Any, motion: Any
) -> None:
    book = reopened(answered(WIDE))
    box = book.run(0).locator(".ia-answer .ipyagent-table")
    cell = box.locator("tbody td").first
    left = "each => each.getBoundingClientRect().left"
    assert box.evaluate("box => box.scrollWidth > box.clientWidth")
    fades = "box => getComputedStyle(box).backgroundAttachment"
    assert box.evaluate(fades) == "local, local, scroll, scroll"
    before, second = cell.evaluate(left), box.locator("tbody td").nth(1).evaluate(left)
    box.evaluate("box => { box.scrollLeft = 200 }")
    assert cell.evaluate(left) == before
    assert box.locator("tbody td").nth(1).evaluate(left) < second
    book.shot(f"wide-table-{motion}")
    # A call unfolds in 120 ms, unless the user wants no motion.
    book.page.emulate_media(reduced_motion=motion)
    lasts = "each => getComputedStyle(each, '::details-content').transitionDuration"
    time = "0s" if motion == "reduce" else "0.12s, 0.12s"
    assert book.run(0).locator(".ia-tool").first.evaluate(lasts) == time


@pytest.mark.parametrize("theme", THEMES)
def test_all_text_can_be_read_in_both_themes_narrow_and_wide(reopened: Any, theme: str) -> None:
    book = reopened(answered(ANSWER))
    in_theme(book, theme)
    run = book.run(0)
    book.command("application:toggle-left-area")
    for width in (500, 1200):
        book.page.set_viewport_size({"width": width, "height": 2400})
        book.shot(f"transcript-{theme[11:].lower()}-{width}")
        wider = run.evaluate("root => root.scrollWidth - root.clientWidth")
        assert wider <= 0
        # What does not fit on the line gives way, and the time stays.
        for time in run.locator(".ia-duration:visible").all():
            inside = "time => time.getBoundingClientRect().right <= time.closest("
            assert time.evaluate(inside + "'.ipyagent-card').getBoundingClientRect().right")
    run.evaluate("root => root.querySelectorAll('details').forEach(each => (each.open = true))")
    book.shot(f"transcript-{theme[11:].lower()}-open")
    found = run.evaluate(FAINT)
    assert found["count"] > 150
    assert found["faint"] == []


def test_the_line_of_a_call_is_cut_only_where_there_is_no_room(reopened: Any) -> None:
    run = saved_run()
    call = run["steps"][0]["executions"][0]
    why = "No such file or directory: data/regions.csv"
    result = {"success": False, "output": why, "error": why}
    call |= {"status": "failed", "decision": "approved", "reason": None, "result": result}
    book = reopened(run)
    book.run(0).locator(".ia-steps > summary").click()
    line = book.run(0).locator("[data-ipyagent=tool]").first.locator(".ia-line")
    widths = "part => [part.scrollWidth, part.clientWidth]"
    for part in (".ia-summary", ".ia-outcome", ".ia-decision"):
        whole, shown = line.locator(part).evaluate(widths)
        assert whole == shown, part
    for part in (".ia-summary", ".ia-decision"):
        more = "part => part.append(' and more'.repeat(40), ' to the end')"
        line.locator(part).evaluate(more)
        whole, shown = line.locator(part).evaluate(widths)
        assert whole > shown > 150, part
    # Why the user decided so stands nowhere else: unfolded, the line has all of it.
    line.click()
    whole, shown = line.locator(".ia-decision").evaluate(widths)
    assert whole == shown


def test_formulas_tables_and_code_are_drawn_as_such(reopened: Any) -> None:
    book = reopened(answered(ANSWER))
    answer = book.run(0).locator("[data-ipyagent=answer]")
    expect(answer.locator("mjx-container")).to_have_count(2)
    expect(answer).to_contain_text("$5 to $10 a month")
    formula = answer.locator("mjx-container").first.bounding_box()
    assert formula
    assert 10 < formula["height"] < 40
    assert answer.locator("pre > code > :is(b, i, var)").count() >= 8
    begins = """p => { const range = new Range(); range.setStart(p.firstChild, 0);
        range.setEnd(p.firstChild, 1); const at = range.getBoundingClientRect();
        return p.getBoundingClientRect().right - at.right; }"""
    assert answer.locator("p", has_text="שלום").evaluate(begins) < 2
    expect(answer.locator(".ipyagent-listing-language")).to_have_text(["python", "sql"])


@pytest.mark.spec("A27")
def test_a_forged_formula_neither_covers_the_page_nor_links(notebook: Any) -> None:
    bundle = saved_bundle(Run.from_dict(answered("It is $x$.")))
    forged = r"$\href{https://e.example}{x}\rule{9999em}{9999em}\kern-9999em\rule{9999em}{99em}$"
    html = str(bundle["text/html"]).replace(">$x$<", f">{forged}<")
    output = nbformat.v4.new_output("display_data", {**bundle, "text/html": html})
    cells = [nbformat.v4.new_code_cell("%%agent", outputs=[output]) for _ in range(2)]
    book = notebook(*cells, ready=False)
    formula = book.run(0).locator(".ia-formula")
    expect(formula.locator("mjx-container a")).to_have_css("pointer-events", "none")
    assert formula.bounding_box()["width"] <= book.run(0).bounding_box()["width"]
    outside = book.page.evaluate("""() => {
        const [formula] = document.querySelectorAll('.ia-formula');
        const {left, right, top, bottom} = formula.closest('.ia-answer').getBoundingClientRect();
        const found = [];
        for (let x = 0; x < innerWidth; x += 9) {
            for (let y = 0; y < innerHeight; y += 9) {
                const isInside = left <= x && x <= right && top <= y && y <= bottom;
                if (!isInside && formula.contains(document.elementFromPoint(x, y))) {
                    found.push([x, y]);
                }
            }
        }
        return found;
    }""")
    assert outside == []


def test_everything_can_be_reached_and_used_by_keyboard(reopened: Any) -> None:
    book = reopened(answered(ANSWER))
    page, run = book.page, book.run(0)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    assert page.evaluate("document.activeElement.closest('[data-ipyagent]')") is None
    first = run.locator("summary:visible").first
    first.focus()
    seen = set()
    for _ in range(60):
        seen.add(
            page.evaluate("document.activeElement.className || document.activeElement.localName")
        )
        page.keyboard.press("Tab")
    assert {"summary", "ia-line", "a", "ipyagent-button ipyagent-button-copy"} <= seen
    first.focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    outline = first.evaluate("each => getComputedStyle(each).outlineStyle")
    assert outline == "solid"
    for key in ("Enter", "Space"):
        opened = first.evaluate("each => each.parentElement.open")
        page.keyboard.press(key)
        assert first.evaluate("each => each.parentElement.open") != opened
    button = run.locator("[data-ipyagent=copy]").last
    button.focus()
    page.keyboard.press("Enter")
    expect(button).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()").startswith("SELECT region")
    # None of these keys was one for the notebook.
    assert page.locator(".jp-Notebook.jp-mod-editMode").count() == 0


def test_names_and_roles_tell_what_is_seen(reopened: Any) -> None:
    run = reopened(answered(ANSWER)).run(0)
    assert run.get_attribute("aria-label") == "Run of ipyagent"
    steps = run.locator("[role=group]:is(.ia-step, .ia-answer)").evaluate_all(
        "all => all.map(one => one.ariaLabel)"
    )
    assert steps == ["Step 1", "Step 2", "Step 3", "Step 4", "Answer"]
    nameless = """root => [...root.querySelectorAll('button, input, a, summary, [role=img], img')]
        .filter(one => !one.closest('[hidden]'))
        .filter(one => !(one.ariaLabel || one.alt || one.textContent.trim()))"""
    assert run.evaluate(f"root => ({nameless})(root).map(one => one.outerHTML.slice(0, 200))") == []
    # Text that streams in is not read out while it comes.
    assert run.locator("[aria-live] .ia-markdown, .ia-markdown[aria-live]").count() == 0


@pytest.mark.parametrize("has_html", [True, False], ids=["with HTML", "alone"])
def test_a_run_of_another_version_is_drawn_as_its_html_or_a_note(
    notebook: Any, has_html: bool
) -> None:
    html = {"text/html": "<p>What was said <b>plainly</b><script>throw 1</script></p>"}
    data = {RUN_MIME: {"steps": [1, {"calls": [{"id": 1}]}]}, **(html if has_html else {})}
    output = nbformat.v4.new_output("display_data", data)
    book = notebook(nbformat.v4.new_code_cell("%%agent", outputs=[output]), ready=False)
    logged: list[str] = []
    book.page.on("console", lambda message: logged.append(message.text))
    words = "What was said plainly" if has_html else "was saved without its HTML"
    expect(book.output(0)).to_contain_text(words)
    expect(book.output(0).locator("script")).to_have_count(0)
    assert not [text for text in logged if "ipyagent" in text]


def waiting(page: Page, call_id: str) -> None:
    """The rich run in the widget, at the moment at which that call waits for a user."""
    run = saved_run() | {"status": "running", "stop_reason": None, "error": None}
    steps = run["steps"]
    (number,) = [n for n, step in enumerate(steps) if call_id in ids_of(step)]
    run["steps"] = steps[: number + 1]
    executions = run["steps"][-1]["executions"]
    place = ids_of(run["steps"][-1]).index(call_id)
    executions[place] |= {"status": "awaiting_approval", "result": None, "decision": None}
    run["steps"][-1]["executions"] = executions[: place + 1]
    page.evaluate("m => receive(m)", snapshot(live_run(run, approvals={call_id: "a1"})))


def ids_of(step: dict[str, Any]) -> list[str]:
    return [execution["call"]["id"] for execution in step["executions"]]


@pytest.mark.parametrize("call_id", ["c2", "c8"])
def test_who_waits_is_told_and_no_focus_is_taken(site: Site, page: Page, call_id: str) -> None:
    waiting(page, call_id)
    expect(page.get_by_role("alert")).to_have_count(1)
    words = {"c2": "May run_python run?", "c8": "Question: Which year"}[call_id]
    expect(page.get_by_role("alert")).to_contain_text(words)
    assert page.evaluate("document.activeElement === document.body")
    # What is seen on a button is a part of its name, for those who say it aloud.
    unlike = """[...document.querySelectorAll('#place button')].filter((button) =>
        !button.ariaLabel.includes(button.textContent.replace(/^\\W+/, '').trim()))"""
    assert page.evaluate(f"{unlike}.map((button) => button.outerHTML)") == []


def test_nothing_moves_for_who_wants_no_motion(site: Site, page: Page) -> None:
    for message in moments("step_started"):
        page.evaluate("m => receive(m)", message)
    assert page.evaluate("document.getAnimations().length") > 0
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate("document.getAnimations().length") == 0


def test_states_are_told_by_more_than_colour_where_colours_are_forced(
    site: Site, page: Page
) -> None:
    page.emulate_media(forced_colors="active")
    waiting(page, "c2")
    for button in page.locator("#place .ipyagent-button").all():
        assert button.evaluate("b => getComputedStyle(b).borderTopWidth") == "1px"
    expect(page.locator(".ia-state")).to_have_text("waiting for you")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_outside_of_jupyterlab_too(site: Site, page: Page, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme)
    page.add_style_tag(content="html { color-scheme: light dark; } body { color: CanvasText; }")
    page.add_style_tag(content="body { background: Canvas; }")
    waiting(page, "c2")
    page.locator("details").evaluate_all("all => all.forEach((each) => (each.open = true))")
    found = page.locator("#place").evaluate(FAINT)
    assert found["count"] > 30
    assert found["faint"] == []
