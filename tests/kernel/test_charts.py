"""Charts that a page may draw for a look: nothing in them is an address or could become one."""

from __future__ import annotations

import base64
import copy
from typing import Any

import pytest

from ipyagent.kernel.displays import LARGEST, as_chart

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
