"""What a page draws: bundles beside the card, and charts of data alone."""

from __future__ import annotations

import base64
import copy
import json
from pathlib import Path
from typing import Any

import pytest

from ipyagent.kernel.displays import LARGEST, as_chart, page_kind
from ipyagent.kernel.outputs import KEPT, CellOutputs, Outputs
from ipyagent.redaction import HIDDEN
from ipyagent.schema import Display, ToolResult
from ipyagent.ui.static_html import result_html
from kernels import RUN_JSON, Kernel, Page, Reply, python, script

# What code shows and only a page can draw is an output of the cell, exactly once ------------------

PLOTLY = "application/vnd.plotly.v1+json"
WIDGET = "application/vnd.jupyter.widget-view+json"
SECRET = "sk-" + "proj-a1B2c3D4e5F6g7H8i9J0k1L2m3N4"


def agent(kernel: Kernel, folder: Path, *codes: str, page: bool = True) -> Reply:
    option = script(folder, *(python(f"{SETUP}\n{code}") for code in codes), "Done.")
    cell = f"%%agent {option} --confirm yolo\nBegin."
    return kernel.run(cell, page=Page(kernel) if page else None)


SETUP = f"""\
from IPython.display import HTML, JSON, SVG, GeoJSON, Latex, clear_output, display, update_display
def figure(number, **more):
    return {{"{PLOTLY}": {{"data": [{{"y": [number]}}]}}, **more}}
class Chart:
    def __init__(self, bundle): self.bundle = bundle
    def _repr_mimebundle_(self, **how): return self.bundle"""


def shown(reply: Reply) -> list[dict[str, Any]]:
    """Return the outputs of the cell beside the card, as a notebook saves them."""
    outputs = dict[str, dict[str, Any]]()
    for number, message in enumerate(reply.messages):
        if message["msg_type"] in ("display_data", "update_display_data"):
            data = message["content"]["data"]
            name = message["content"]["transient"].get("display_id", str(number))
            assert message["msg_type"] == "display_data" or name in outputs
            outputs[name] = data
    return [
        data
        for data in outputs.values()
        if RUN_JSON not in data and "ipyagent is running" not in data.get("text/plain", "")
    ]


BUNDLES = {
    "display(figure(7), raw=True)": (PLOTLY, "plotly figure"),
    "Chart(figure(7))": (PLOTLY, "plotly figure"),
    "Chart(figure(7, **{'text/html': '<script>draw()</script>'}))": (PLOTLY, "plotly figure"),
    "display({'application/vnd.vegalite.v5+json': {'mark': 'bar'}}, raw=True)": (
        "application/vnd.vegalite.v5+json", "Vega-Lite chart",
    ),
    "display({'application/vnd.vega.v5.json': {'marks': []}}, raw=True)": (
        "application/vnd.vega.v5.json", "Vega chart",
    ),
    "Latex('$x^2$')": ("text/latex", "formula"),
    "display({'text/latex': '$y$', 'text/plain': 'y'}, raw=True)": ("text/latex", "formula"),
    "GeoJSON({'type': 'Point', 'coordinates': [7, 8]})": (
        "application/geo+json", "GeoJSON map",
    ),
    "JSON({'deep': [7]})": ("application/json", "JSON"),
    "display({'application/vnd.bokehjs_exec.v0+json': '', 'text/html': '<script/>'}, raw=True)": (
        "application/vnd.bokehjs_exec.v0+json", "Bokeh figure",
    ),
    "import ipywidgets\nipywidgets.IntSlider(value=7)": (WIDGET, "widget"),
    "SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>')": ("image/svg+xml", "image"),
    "display({'application/vnd.other.v1+json': {'a': 7}}, raw=True)": (
        "application/vnd.other.v1+json", "figure",
    ),
}  # fmt: skip


@pytest.mark.spec("A36")
def test_each_kind_is_shown_once_below_its_card_and_the_model_is_told(
    fresh: Kernel, tmp_path: Path
) -> None:
    reply = agent(fresh, tmp_path, *BUNDLES)
    assert reply.status == "ok"
    outputs, told = shown(reply), reply.results
    assert len(outputs) == len(told) == len(BUNDLES), [list(each) for each in outputs]
    card = reply.of("update_display_data")[-1]["data"]["text/html"]
    for (code, (mime, kind)), data, result in zip(BUNDLES.items(), outputs, told, strict=True):
        assert mime in data, code
        assert data["text/plain"], code
        assert result["output"].endswith(f"[{kind}, shown to the user]"), code
        assert "7" not in result["output"], code
        assert f"[{kind}, shown below]" in card, code
    assert {"data": [{"y": [7]}]} in [each.get(PLOTLY) for each in outputs]


def test_a_widget_is_shown_once_and_before_its_code_goes_on(fresh: Kernel, tmp_path: Path) -> None:
    code = "import ipywidgets\nbar = ipywidgets.IntProgress()\ndisplay(bar)\nbar.value = 7"
    reply = agent(fresh, tmp_path, code)
    events = [str(message["content"].get("data")) for message in reply.messages]
    drawn = [number for number, event in enumerate(events) if "'IntProgress(value=" in event]
    moved = [number for number, event in enumerate(events) if "'value': 7" in event]
    assert len(drawn) == len(moved) == 1
    assert drawn < moved


def test_a_widget_that_is_shown_twice_is_there_twice(fresh: Kernel, tmp_path: Path) -> None:
    code = "import ipywidgets\nbar = ipywidgets.IntProgress()\ndisplay(bar)\ndisplay(bar)"
    drawn = [each for each in shown(agent(fresh, tmp_path, code)) if WIDGET in each]
    assert len(drawn) == 2


def test_the_lines_of_running_code_leave_out_what_the_page_shows_below_them() -> None:
    outputs = Outputs()
    outputs.place = "below"
    outputs.show({WIDGET: {}, "text/plain": "IntProgress()"})
    outputs.write("stdout", "epoch 1\n")
    assert outputs.recent_text() == "epoch 1"


def test_the_newest_state_of_a_display_is_shown(fresh: Kernel, tmp_path: Path) -> None:
    reply = agent(
        fresh,
        tmp_path,
        "handle = display(figure(1), raw=True, display_id=True)\n"
        "handle.update(figure(2), raw=True)\n"
        "display('soon', display_id='later')\n"
        "display('soon too', display_id='later')\n"
        "update_display(figure(3), raw=True, display_id='later')",
        "handle.update(figure(4), raw=True)",
        "display(figure(5), raw=True)\nclear_output()\ndisplay(figure(6), raw=True)",
    )
    assert [each[PLOTLY]["data"][0]["y"] for each in shown(reply)] == [[4], [3], [6]]
    after = fresh.run("handle.update(figure(8), raw=True)")
    assert after.of("update_display_data")[0]["data"][PLOTLY] == {"data": [{"y": [8]}]}


def test_a_run_without_a_page_saves_it_above_the_card(fresh: Kernel, tmp_path: Path) -> None:
    reply = agent(fresh, tmp_path, "Chart(figure(7))", page=False)
    first, card = (each["data"] for each in reply.of("display_data"))
    assert first[PLOTLY] == {"data": [{"y": [7]}]}
    assert "[plotly figure, shown above]" in card["text/html"]


def test_secrets_and_false_cards_are_not_shown(fresh: Kernel, tmp_path: Path) -> None:
    fresh.run(f"token = {SECRET!r}")
    reply = agent(
        fresh,
        tmp_path,
        "password = 'open' + '-sesame-4711'\n"
        "display({'application/json': {'a': token, 'b': password}}, raw=True)",
        f"display({{'{RUN_JSON}': {{'steps': []}}, 'text/plain': 'a run'}}, raw=True)",
        f"display(figure(1, **{{'{RUN_JSON}': {{'steps': []}}}}), raw=True)",
    )
    secret, figure = shown(reply)
    assert secret["application/json"] == {"a": HIDDEN, "b": HIDDEN}
    assert set(figure) == {PLOTLY, "text/plain"}


def test_what_json_does_not_hold_is_shown_without_a_warning(fresh: Kernel, tmp_path: Path) -> None:
    reply = agent(
        fresh,
        tmp_path,
        f"display({{'{PLOTLY}': {{'y': [float('nan'), float('inf'), 1.5]}}}}, raw=True)",
        f"display({{'{PLOTLY}': {{'t': '\\ud800x'}}}}, raw=True, metadata={{'a': float('nan')}})",
        "Chart({1: 2, None: 3, 'text/plain': 'numbered'})",
        "for n in range(52): display(figure(n), raw=True)",
    )
    assert reply.stderr == ""
    first, second, *figures = shown(reply)
    assert first[PLOTLY] == {"y": [None, None, 1.5]}
    assert second[PLOTLY] == {"t": "?x"}
    named, many = (each["output"] for each in reply.results[2:])
    assert named == "numbered"
    assert len(figures) == many.count("shown to the user") == 50
    assert many.count("[plotly figure, not shown: there are 50 displays already]") == 2
    assert "terminal" not in many


def test_what_is_said_about_a_figure_holds_no_secret_either() -> None:
    outputs = Outputs()
    outputs.place = "below"
    outputs.clean = lambda data: json.loads(json.dumps(data).replace(SECRET, HIDDEN))
    outputs.show({PLOTLY: {}}, None, {"note": SECRET})
    assert outputs.page_bundles[0].metadata == {"note": HIDDEN}


def test_code_that_fails_or_shows_what_is_no_json_shows_what_it_can(
    fresh: Kernel, tmp_path: Path
) -> None:
    reply = agent(
        fresh,
        tmp_path,
        "display(figure(1), raw=True)\n1 / 0",
        f"display({{'{PLOTLY}': {{'data': {{1, 2}}}}}}, raw=True, metadata={{'odd': object}})",
        "for n in range(30): print('x' * 99_000)\n"
        "display(figure(3), raw=True)\n"
        "for n in range(99): print('y' * 99_000)",
    )
    assert [each[PLOTLY]["data"] for each in shown(reply)] == [
        [{"y": [1]}], "{1, 2}", [{"y": [3]}],
    ]  # fmt: skip
    assert "ZeroDivisionError" in reply.results[0]["error"]


def test_what_a_card_holds_is_shown_in_the_card_alone(fresh: Kernel, tmp_path: Path) -> None:
    reply = agent(
        fresh,
        tmp_path,
        "HTML('<b>bold</b>')",
        "display({'text/markdown': '*x*', 'text/latex': '$x$'}, raw=True)",
        "display({'application/vnd.dataresource+json': {}, 'text/html': '<i>t</i>'}, raw=True)",
        "display({'text/plain': 'plain'}, raw=True)",
    )
    assert shown(reply) == []


def test_a_saved_result_cannot_bring_an_output_of_its_own() -> None:
    hostile = {PLOTLY: '{"data": []}', "text/html": "<b>false</b>", "text/plain": "named"}
    result = ToolResult(output="x", displays=(Display(data=hostile, beside=True),))
    again = ToolResult.model_validate_json(result.model_dump_json())
    html = result_html(again)
    assert "named" in html
    assert "false" not in html
    assert "plotly" not in html


@pytest.mark.parametrize(
    ("bundle", "words"),
    [
        ({PLOTLY: {"data": []}}, "[plotly figure: a terminal cannot draw it; run this in a"),
        ({PLOTLY: {"data": []}, "text/plain": "Figure()"}, "Figure()"),
        ({WIDGET: {}, "text/plain": "IntSlider()"}, "IntSlider()\n[widget: a terminal cannot"),
        ({"application/geo+json": {}}, "[GeoJSON map: a terminal cannot"),
        ({"text/latex": "$x$"}, "$x$"),
        ({"application/json": {"a": 1}}, "[JSON: a terminal cannot"),
    ],
)
def test_without_a_page_the_text_is_used_or_a_sentence_says_where_to_look(
    bundle: dict[str, Any], words: str
) -> None:
    outputs = Outputs()
    outputs.show(bundle)
    assert outputs.text().startswith(words)
    assert outputs.page_bundles == []


FOLIUM = (
    '<div style="width:100%;"><div style="height:0"><span style="color:#565656">Make this Notebook '
    'Trusted to load map: File -> Trust Notebook</span><iframe srcdoc="&lt;script&gt;draw()'
    '&lt;/script&gt;" style="width:100%" allowfullscreen></iframe></div></div>'
)


ANIMATION = """\
<link rel="stylesheet" href="https://example.com/icons.css">
<script>function Animation(frames) {}</script><style>.animation {}</style>
<div class="animation"><img id="_anim_img1"><div><input type="range" min="0" max="1">
<button title="Play"><i class="fa fa-play"></i></button>
<form><input type="radio" name="state"><label>Once</label><input type="radio"><label>Loop</label>
</form></div></div>
<script>frames[0] = "data:image/png;base64,AAAA"</script>"""
"""As `FuncAnimation.to_jshtml` has it."""


@pytest.mark.parametrize(
    ("html", "is_run"),
    [
        (FOLIUM, False),
        (ANIMATION, False),
        ("<script>draw()</script><img alt='a' src='https://example.com/a.png'>", True),
        ("<script>draw()</script><img\nsrc='data:image/png;base64,AAAA'>", True),
        ('<iframe width="400" src="https://example.com/video"></iframe>', False),
        ("<div id='v'></div><SCRIPT>draw()</SCRIPT>", False),
        ('<video src="https://example.com/v.mp4" controls></video>', False),
        ('<audio controls><source src="data:audio/wav;base64,AAAA"/></audio>', False),
        ("<script>draw()</script><p>" + "words " * 50, True),
        ("<script>draw()</script><table><tr><td>1</td></tr></table>", True),
        ("<style>b {color: red}</style><b>bold</b>", True),
        ("<p>if a &lt;script&gt; b</p>", True),
    ],
)
def test_html_that_only_runs_is_no_empty_card(html: str, is_run: bool) -> None:
    outputs = Outputs()
    outputs.place = "below"
    outputs.show({"text/html": html, "text/plain": "<folium.Map>"})
    assert outputs.page_bundles == [], "scripts of a page could press the buttons of a card"
    assert (len(outputs.displays) == 1) is is_run
    assert outputs.text().startswith("<folium.Map>")
    assert ("show it in a cell of your own" in outputs.text()) is not is_run


def test_what_is_only_a_script_is_told_not_to_run_and_text_is_told_as_it_reads() -> None:
    outputs = Outputs()
    outputs.show({"application/javascript": "draw()", "text/plain": "<Javascript>"})
    outputs.show({"text/markdown": "**bold**", "text/plain": "<IPython.core.display.Markdown …>"})
    assert outputs.text().startswith("<Javascript>\n[HTML with scripts, a frame or media")
    assert outputs.text().endswith("]\n**bold**")


ALTAIR = """\
class Chart:
    def to_dict(self): return {"mark": "bar"}
    def _repr_mimebundle_(self, **how):
        return {"text/html": "<script>draw()</script>", "text/plain": "alt.Chart(...)"}
"""


def test_a_chart_of_altair_is_drawn_though_it_is_html_by_default(
    fresh: Kernel, tmp_path: Path
) -> None:
    (tmp_path / "altair").mkdir()
    (tmp_path / "altair" / "__init__.py").write_text("from altair.charts import Chart")
    (tmp_path / "altair" / "charts.py").write_text(ALTAIR)
    fresh.run(f"import sys; sys.path.insert(0, {str(tmp_path)!r})")
    reply = agent(fresh, tmp_path, "import altair\naltair.Chart()", "display(altair.Chart())")
    for data, result in zip(shown(reply), reply.results, strict=True):
        assert data["application/vnd.vegalite.v5+json"] == {"mark": "bar"}
        assert "draw()" not in json.dumps(data)
        assert result["output"] == "[Vega-Lite chart, shown to the user]"


def test_an_image_in_the_bundle_is_used_without_a_page() -> None:
    outputs = Outputs()
    png = (
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
        "rkJggg=="
    )
    outputs.show({PLOTLY: {"data": []}, "image/png": png})
    assert len(outputs.images) == 1
    assert "1×1 pixels" in outputs.text()


def test_a_cell_that_is_run_holds_its_figures_itself() -> None:
    outputs = CellOutputs(1)
    outputs.show({PLOTLY: {"data": []}}, None, {"a": 1})
    assert outputs.cell()[0]["data"] == {PLOTLY: {"data": []}}
    assert outputs.page_bundles == []
    assert outputs.displays[0].data == {"text/plain": "[plotly figure, shown in its cell]"}


@pytest.mark.parametrize(
    ("mimes", "kind"),
    [
        (["text/html", "text/latex"], None),
        (["image/png", "text/latex"], None),
        (["image/png", PLOTLY], "plotly figure"),
        (["application/vnd.ipyagent.run+json"], None),
        (["text/plain"], None),
        ([], None),
        (["application/javascript"], None),
        (["text/vnd.mermaid", "text/plain"], "Mermaid diagram"),
        (["application/vnd.holoviews_exec.v0+json", "text/html"], "HoloViews figure"),
    ],
)
def test_kinds_are_told_by_their_types(mimes: list[str], kind: str | None) -> None:
    assert page_kind(dict.fromkeys(mimes, "x")) == kind


def test_the_data_of_a_figure_never_reach_the_text() -> None:
    outputs = Outputs()
    outputs.place = "below"
    outputs.show({PLOTLY: {"data": ["x" * KEPT]}, "text/plain": "Figure({'data': []})"})
    outputs.abbreviate("Figure({})")
    assert outputs.text() == "[plotly figure, shown to the user]"
    assert outputs.text_for_model() is None
    assert len(json.dumps(outputs.page_bundles[0].data)) > KEPT


MARKUP = "{'text/html': '<script>draw()</script>', 'application/javascript': 'draw()'}"


@pytest.mark.parametrize(
    ("code", "is_kept"),
    [
        (f"Chart(figure(7, **{MARKUP}))", False),
        (f"display(Chart(figure(7, **{MARKUP})))", False),
        ("Chart({'text/latex': '$x$', 'application/javascript': 'draw()'})", False),
        (f"import library\nChart.__module__ = 'library'\nChart(figure(7, **{MARKUP}))", False),
        (f"import library\nlibrary.Chart(figure(7, **{MARKUP}))", True),
    ],
)
def test_scripts_of_a_class_that_was_just_defined_reach_no_page(
    fresh: Kernel, tmp_path: Path, code: str, is_kept: bool
) -> None:
    (tmp_path / "library.py").write_text(
        "class Chart:\n"
        "    def __init__(self, bundle): self.bundle = bundle\n"
        "    def _repr_mimebundle_(self, **how): return self.bundle\n"
    )
    fresh.run(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.modules.pop('library', 0)")
    (data,) = shown(agent(fresh, tmp_path, code))
    assert ("draw()" in json.dumps(data)) is is_kept


# Charts that a page may draw for a look: nothing in them is an address or could become one --------

PLOTLY, VEGALITE = "application/vnd.plotly.v1+json", "application/vnd.vegalite.v5+json"
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.20.1.json"
FIGURE: dict[str, Any] = {
    "data": [
        {
            "type": "scatter",
            "x": {"dtype": "i1", "bdata": base64.b64encode(b"\xff" * 9).decode()},
            "y": [1, None, 2.5],
            "hovertemplate": "x=%{x}<br>y=%{y}<extra></extra>",
        }
    ],
    "layout": {
        "title": {"text": "Bill length at 12:30"},
        "template": {
            "data": {"choropleth": [{"type": "choropleth"}]},
            "layout": {"geo": {"showlakes": True}, "mapbox": {"style": "light"}},
        },
    },
}
CHART: dict[str, Any] = {
    "$schema": SCHEMA,
    "config": {"view": {"continuousWidth": 300}},
    "data": {"name": "data-1f"},
    "mark": {"type": "point"},
    "encoding": {"x": {"field": "a", "type": "quantitative"}, "tooltip": {"field": "a"}},
    "params": [{"name": "p", "select": {"type": "interval"}, "bind": "scales"}],
    "datasets": {"data-1f": [{"a": 1}, {"a": 2}]},
}


def altered(chart: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """Return a chart with a value at a path such as `layout.title`."""
    chart = copy.deepcopy(chart)
    *way, last = path.split(".")
    at: Any = chart
    for key in way:
        at = at[int(key)] if isinstance(at, list) else at.setdefault(key, {})
    at[last] = value
    return chart


def test_a_figure_of_plotly_and_a_chart_of_altair_are_drawn_without_pages_and_settings() -> None:
    html = {"text/plain": "a chart", "text/html": "<script>steal()</script>"}
    config = {"config": {"plotlyServerURL": "https://plot.ly"}}
    assert as_chart({PLOTLY: FIGURE | config, **html}) == {PLOTLY: FIGURE, "text/plain": "a chart"}
    assert as_chart({VEGALITE: CHART, **html}) == {VEGALITE: CHART, "text/plain": "a chart"}


HOSTILE = {
    "layout.images": [{"source": "x"}],
    "layout.title.text": "<a href='https://e.vil?n=1'>more</a>",
    "layout.annotations": [{"text": "ht\ntps:e.vil"}],
    "layout.font.family": "x; background: url (e.vil)",
    "layout.template.layout.images": [{}],
    "layout.updatemenus": [{"buttons": [{"args": [{"images[0].source": 1}]}]}],
    "layout.geo.geojson": "api/secrets",
    "data.0.type": "scattermapbox",
    "data.0.text": "\\\\e.vil",
    "data.0.x": {"bdata": "//e.vil/x"},
    "data.0.marker": {"bdata": "AAAA", "source": "x"},
    "frames": [{"data": [{"type": "image", "z": []}]}],
}
"""Paths in a figure, and what is put there."""


def test_a_figure_that_could_reach_a_server_is_not_drawn() -> None:
    bundles = {path: {PLOTLY: altered(FIGURE, path, value)} for path, value in HOSTILE.items()}
    assert [path for path, bundle in bundles.items() if as_chart(bundle)] == []


HOSTILE_CHARTS: dict[str, object] = {
    "mark.type": "image",
    "mark": "image",
    "mark.href": "x",
    "encoding.url": {"field": "a"},
    "encoding.href": {"field": "a"},
    "data.url": "api/contents",
    "transform": [{"calculate": "'htt' + 'ps:' + datum.a", "as": "b"}],
    "layer": [{"mark": {"type": "bar", "tooltip": {"expr": "{'image': datum.a}"}}}],
    "encoding.tooltip": [{"field": "a", "title": "image"}],
    "encoding.x.axis": {"labelExpr": "warn(datum)"},
    "datasets.data-1f": [{"image": "x"}],
    "datasets.data-2": [{"a": "//e.vil"}],
    "mark.cursor": "url(x)",
    "mark.fill": "URL(#x)",
    "params": [{"name": "p", "bind": {"input": "text", "element": "#x"}}],
    "usermeta": {"embedOptions": {"patch": "x"}},
    "$schema": SCHEMA.replace("vega-lite", "vega"),
    "width": {"signal": "x"},
}


def test_a_chart_that_could_reach_a_server_is_not_drawn() -> None:
    charts = {path: altered(CHART, path, value) for path, value in HOSTILE_CHARTS.items()}
    assert [path for path, chart in charts.items() if as_chart({VEGALITE: chart})] == []


NAMES = "url href src srcset source image images geojson topojson usermeta loader bind"
COMPUTED = "expr calculate signal test filter expression on clear toggle translate zoom update"
SCHEMES = "http https ws wss ftp file data blob javascript about"
MAPS = "choropleth choroplethmap choroplethmapbox scattergeo scattermap scattermapbox"


def test_each_word_with_which_a_chart_could_reach_a_server_is_enough() -> None:
    keys, computed = NAMES.split(), [*COMPUTED.split(), "labelExpr"]
    texts = ["//e", "\\e", "href", "url (", *(f"{each} :e" for each in SCHEMES.split())]
    traces = f"image {MAPS} densitymap densitymapbox".split()
    charts = {
        **{key: {PLOTLY: altered(FIGURE, f"layout.{key}", 1)} for key in keys},
        **{key: {VEGALITE: altered(CHART, f"encoding.{key}", 1)} for key in computed},
        **{text: {PLOTLY: altered(FIGURE, "layout.title.text", text)} for text in texts},
        **{kind: {PLOTLY: altered(FIGURE, "data.0.type", f" {kind}")} for kind in traces},
    }
    assert [word for word, bundle in charts.items() if as_chart(bundle)] == []


@pytest.mark.parametrize(
    "bundle",
    [
        {"text/html": "<script/>"},
        {PLOTLY: "text"},
        {PLOTLY: FIGURE, "application/vnd.jupyter.widget-view+json": {}},
        {"application/vnd.vega.v5+json": CHART},
        {"application/vnd.bokehjs_exec.v0+json": {}},
        {PLOTLY: altered(FIGURE, "data.0.text", "x" * LARGEST)},
    ],
)
def test_what_is_no_such_chart_is_not_drawn(bundle: dict[str, Any]) -> None:
    assert as_chart(bundle) is None
