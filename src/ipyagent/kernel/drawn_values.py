"""Bundles of libraries' values in the form that a card or a page draws.

Jupyter draws a Series as text, the colors of a styled table by a style sheet, and a chart of Altair
as a page of HTML or of a version that JupyterLab does not draw.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

from ipyagent.json_types import JsonDict
from ipyagent.kernel.describe.safe_inspect import module_name
from ipyagent.kernel.page_bundles import page_kind, without_pages

_Format = Callable[[object], tuple[JsonDict, JsonDict]]

_VEGALITE = "application/vnd.vegalite.v5+json"
_HTML = "text/html"
_CELL = re.compile(r'<(?:td|th) id="([^"]*)"')


def improve_bundle(bundle: JsonDict, value: Any, format_value: _Format) -> JsonDict:
    """Return the bundle of a library's value as it is drawn best."""
    home = module_name(type(value))
    pandas = sys.modules.get("pandas")
    if home.startswith("altair.") and hasattr(value, "to_dict"):
        return _draw_chart(bundle, value)
    if pandas is not None and type(value) is pandas.Series and _HTML not in bundle:
        drawn, _ = format_value(value.to_frame("" if value.name is None else value.name))
        return {**bundle, _HTML: drawn[_HTML]} if _HTML in drawn else bundle
    if home == "pandas.io.formats.style" and _HTML in bundle:
        return {**bundle, _HTML: _color_cells(bundle[_HTML])}
    return bundle


def _draw_chart(bundle: JsonDict, chart: Any) -> JsonDict:
    is_open = _HTML in bundle or page_kind(bundle) == "Vega-Lite chart"
    if not is_open or _VEGALITE in bundle:
        return bundle
    return {_VEGALITE: chart.to_dict(), **without_pages(bundle)}


def _color_cells(html: str) -> str:
    """Return a table whose cells have as attributes the colors that its style sheet gives them."""
    colors: dict[str, str] = {}
    sheet = html.partition("<style")[2].partition("</style>")[0].partition(">")[2]
    for rule in sheet.split("}"):
        selectors, _, declarations = rule.partition("{")
        for declaration in declarations.split(";"):
            what, _, color = declaration.partition(":")
            if what.strip() in ("background", "background-color"):
                names = (each.strip().removeprefix("#") for each in selectors.split(","))
                colors |= dict.fromkeys(names, _hexadecimal(color))
    return _CELL.sub(lambda cell: _with_color(cell, colors), html)


def _with_color(cell: re.Match[str], colors: dict[str, str]) -> str:
    color = colors.get(cell[1])
    return f'{cell[0]} bgcolor="{color}"' if color else cell[0]


def _hexadecimal(color: str) -> str:
    from PIL import ImageColor

    try:
        red, green, blue = ImageColor.getrgb(color.replace("!important", "").strip())[:3]
    except ValueError:  # a gradient, or a color that only a browser knows
        return ""
    return f"#{red:02x}{green:02x}{blue:02x}"
