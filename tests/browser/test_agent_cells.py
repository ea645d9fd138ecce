"""`%%agent` in JupyterLab, with real clicks."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from deciding import press
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.same_page]

LOAD = "%load_ext ipyagent"


def script(folder: Path, name: str, *replies: Any) -> str:
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(list(replies)))
    return f"-m scripted/{name}.yaml"


def python(code: str, **more: Any) -> dict[str, Any]:
    return {"calls": [{"name": "run_python", "arguments": {"code": code}}], **more}


def test_approve_by_a_click_while_the_cell_runs(jupyterlab: Any, notebook: Any) -> None:
    option = script(
        jupyterlab.folder,
        "approve",
        python(
            "answer = 6 * 7\nprint('computed', answer)",
            thinking="I should compute.",
            text="Let me compute.",
        ),
        "The answer is **42**.",
    )
    book = notebook(LOAD, f"%%agent {option}\nCompute.", "print('order', answer)")
    book.start_all()
    book.expect_state(1, "waiting")
    expect(book.prompt(1)).to_have_text("[*]:")
    card = book.run(1).locator("[data-ipyagent=tool]")
    expect(card).to_have_attribute("data-state", "awaiting_approval")
    expect(card).to_contain_text("answer = 6 * 7")
    expect(book.run(1)).to_contain_text("Let me compute.")
    book.shot("approve-waiting")
    press(card.locator("[data-ipyagent=approve]"))
    book.expect_done(2)
    book.expect_state(1, "done")
    expect(book.run(1).locator("[data-ipyagent=answer]")).to_contain_text("The answer is 42.")
    expect(book.run(1).locator("button")).to_have_count(0)
    expect(book.output(2)).to_contain_text("order 42")
    book.shot("approve-done")


def test_deny_with_a_reason(jupyterlab: Any, notebook: Any) -> None:
    option = script(jupyterlab.folder, "deny", python("danger = 1"), "Then I won't.")
    book = notebook(LOAD, f"%%agent {option}\nBegin.", "print('danger' in globals())")
    book.start_all()
    book.expect_state(1, "waiting")
    book.run(1).locator("[data-ipyagent=reason]").fill("not on my watch")
    book.run(1).locator("[data-ipyagent=deny]").click()
    book.expect_done(2)
    expect(book.run(1).locator("[data-ipyagent=tool]")).to_have_attribute("data-state", "denied")
    expect(book.run(1)).to_contain_text("not on my watch")
    expect(book.output(2)).to_contain_text("False")


def test_always_asks_once_for_the_session(jupyterlab: Any, notebook: Any) -> None:
    option = script(jupyterlab.folder, "always", python("a = 1"), python("b = 2"), "Both.")
    book = notebook(LOAD, f"%%agent {option}\nBegin.", "print(a + b)")
    book.start_all()
    book.expect_state(1, "waiting")
    press(book.run(1).locator("[data-ipyagent=always]"))
    book.expect_done(2)
    expect(book.output(2)).to_contain_text("3")


def test_stop_while_a_tool_blocks_the_main_thread(jupyterlab: Any, notebook: Any) -> None:
    option = script(jupyterlab.folder, "stop", python("import time; time.sleep(60)"), "Never.")
    again = script(jupyterlab.folder, "again", "Back.")
    book = notebook(LOAD, f"%%agent {option} --confirm yolo\nSleep.", f"%%agent {again}\nAnd now?")
    book.start_all()
    expect(book.run(1).locator("[data-ipyagent=tool]")).to_have_attribute(
        "data-state", "running", timeout=90_000
    )
    book.run(1).locator("[data-ipyagent=stop]").click()
    book.expect_state(1, "cancelled")
    expect(book.output(1)).to_contain_text("ipyagent: stopped")
    expect(book.prompt(2)).to_have_text("[ ]:")  # Run All stops there
    book.start(2)
    book.expect_state(2, "done")


def test_the_transcript_survives_save_and_reopening_without_a_kernel(
    jupyterlab: Any, notebook: Any
) -> None:
    code = "import matplotlib.pyplot as plt\n_ = plt.plot([1, 2, 3])"
    option = script(
        jupyterlab.folder, "survive", python(code, thinking="A line."), "See the **line**."
    )
    book = notebook(LOAD, f"%%agent {option} --confirm yolo\nPlot.")
    book.start_all()
    book.expect_done(1)
    book.expect_state(1, "done")
    saved = book.save()
    assert "application/vnd.jupyter.widget-view+json" not in saved.cells[1].outputs[0].data
    book.page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")
    # Another server's secret: the notebook is not trusted when it is opened again.
    book.open()
    book.expect_state(1, "done")
    expect(book.run(1)).to_contain_text("See the line.")
    expect(book.run(1).locator("img")).to_have_count(1)
    expect(book.run(1).locator("button")).to_have_count(0)
    book.shot("reopened")


HOSTILE = [
    '<img src=x onerror="window.pwned=1">',
    "<script>window.pwned=1</script>",
    '<svg onload="window.pwned=1">',
    '<details open ontoggle="window.pwned=1">',
    "[x](javascript:window.pwned=1)",
    "![leak](http://127.0.0.1:9/leak.png)",
    "<button data-ipyagent=approve>Approve</button>",
    '<iframe srcdoc="<script>parent.pwned=1</script>"></iframe>',
    "\x1b]0;pwned\x07 \x1b[31mred",
]


def test_hostile_text_runs_nothing_fetches_nothing_and_forges_no_button(
    jupyterlab: Any, notebook: Any
) -> None:
    everything = "\n\n".join(HOSTILE)
    option = script(
        jupyterlab.folder,
        "hostile",
        python(f"print({everything!r})", thinking=everything, text=everything),
        {"calls": [{"name": everything[:60], "arguments": {everything: everything}}]},
        everything,
    )
    naive = base64.b64encode(HOSTILE[0].encode()).decode()
    shows = (
        f"import base64; from IPython.display import HTML, display; "
        f"display(HTML(base64.b64decode('{naive}').decode()))"
    )
    book = notebook(LOAD, f"%%agent {option}\nBegin.", shows)
    requests: list[str] = []
    book.page.on("request", lambda request: requests.append(request.url))
    book.page.on("dialog", lambda dialog: dialog.dismiss())
    book.start(0)
    book.start(1)
    book.expect_state(1, "waiting")
    expect(book.page.locator("[data-ipyagent=approve]")).to_have_count(1)
    press(book.run(1).locator("[data-ipyagent=approve]"))
    book.expect_state(1, "done")
    book.run(1).evaluate(
        "(run) => run.querySelectorAll('details').forEach((d) => { d.open = true })"
    )
    expect(book.page.locator("[data-ipyagent=approve]")).to_have_count(0)
    assert not book.page.evaluate("window.pwned")
    assert not [url for url in requests if "leak" in url]
    # The same text in an output of its own does fire: the check above can fail.
    book.start(2)
    book.page.wait_for_function("window.pwned")


# Of the answer against what is under it; null while a card makes room for what is kept of it.
CONTRAST = """() => {
    const element = document.querySelector('[data-ipyagent=answer]');
    if (element === null) return null;
    const light = (color) => {
        const [r, g, b] = color.match(/[\\d.]+/g).map(Number).map((v) => {
            v /= 255;
            return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    let under = element;
    let background = 'rgba(0, 0, 0, 0)';
    while (under && /, 0\\)$/.test(background)) {
        background = getComputedStyle(under).backgroundColor;
        under = under.parentElement;
    }
    const [a, b] = [light(getComputedStyle(element).color), light(background)];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}"""


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_text_is_readable_in_both_themes(jupyterlab: Any, notebook: Any, theme: str) -> None:
    option = script(
        jupyterlab.folder,
        "theme",
        python("import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})", thinking="Hm."),
        "Done: `a` and **b**.\n\n| a | b |\n|---|---|\n| 1 | x |",
    )
    book = notebook(LOAD, f"%%agent {option} --confirm yolo\nBegin.")
    book.page.evaluate(
        "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme
    )
    book.start_all()
    book.expect_state(1, "done")
    book.shot(f"theme-{theme.split()[-1].lower()}")
    contrast = book.page.wait_for_function(CONTRAST).json_value()
    assert contrast > 4.5
