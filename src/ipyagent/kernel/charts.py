"""Charts that a page draws from data alone: they ask no server for anything.

Code on a copy of the kernel has no network, but the page that draws its chart has: a picture's
address could carry data out. So nothing is let through that is an address, or could become one.
"""

from __future__ import annotations

import json
import re

from ipyagent.json_types import JsonDict
from ipyagent.kernel.page_bundles import page_kind

LARGEST = 2_000_000
"""Characters of a chart."""

_PLOTLY, _VEGALITE = "application/vnd.plotly.v1+json", r"application/vnd\.vegalite\.v\d\+json"
_SCHEMA = re.compile(r"https://vega\.github\.io/schema/vega-lite/v[\d.]+\.json")
_REACHING = re.compile(
    r"(?<![a-z])(?:url|href|src|srcset|source|images?|geojson|topojson|usermeta|loader|bind)(?![a-z])"
)
"""Keys of addresses, and of what becomes a part of the page."""
_COMPUTED = re.compile(
    r"(?:.*expr|calculate|signal|test|filter|expression|on|clear|toggle|translate|zoom|update)"
)
"""Keys of Vega's expressions, which could put an address together."""
_ADDRESS = re.compile(
    r"//|\\|href|url\s*\(|(?:https?|wss?|ftp|file|data|blob|javascript|about)\s*:", re.IGNORECASE
)
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
"""Browsers read an address without these."""
_KINDS = re.compile(
    r"\s*(?:image|choropleth(?:map|mapbox)?|scatter(?:geo|map|mapbox)|density(?:map|mapbox))\s*",
    re.IGNORECASE,
)
"""Marks and traces with pictures, or with maps, whose outlines and tiles are loaded."""
_BYTES = {"dtype", "bdata", "shape"}
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")


def as_chart(bundle: JsonDict) -> JsonDict | None:
    """Return what is drawn of a bundle if it is a chart of data alone, else None."""
    mimes = [mime for mime in bundle if page_kind({mime: "", "text/html": ""})]
    if len(mimes) != 1 or not isinstance(chart := bundle[mimes[0]], dict):
        return None
    try:
        if len(json.dumps(chart)) > LARGEST:
            return None
    except (ValueError, TypeError, RecursionError):
        return None
    if mimes[0] == _PLOTLY:
        # The rest is the configuration, with the address of a server.
        chart = {key: chart[key] for key in ("data", "layout", "frames") if key in chart}
        is_plain = _is_plain_figure(chart)
    else:
        is_vegalite = re.fullmatch(_VEGALITE, mimes[0])
        rest = {key: value for key, value in chart.items() if key != "$schema"}
        schema = _SCHEMA.fullmatch(str(chart.get("$schema")))
        is_plain = bool(is_vegalite and schema) and not _reaches_out(rest, _COMPUTED, _KINDS)
    text = {"text/plain": str(bundle.get("text/plain", ""))[:LARGEST]}
    return {mimes[0]: chart, **text} if is_plain else None


def _is_plain_figure(figure: JsonDict) -> bool:
    """Return whether a figure of plotly reaches for nothing; its template names all traces."""
    layout = figure.get("layout", {})
    if not isinstance(layout, dict):
        return False
    rest = {key: value for key, value in layout.items() if key != "template"}
    return not (
        _reaches_out({**figure, "layout": rest}, None, _KINDS)
        or _reaches_out(layout.get("template"), None, None)
    )


def _reaches_out(
    value: object, keys: re.Pattern[str] | None, texts: re.Pattern[str] | None
) -> bool:
    """Return whether there is an address in it, or one of these keys or texts."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if "bdata" in each and each.keys() <= _BYTES and _BASE64.fullmatch(str(each["bdata"])):
                each = {**each, "bdata": ""}
            for key in map(str.lower, each):
                is_named = _REACHING.search(key) or (keys and keys.fullmatch(key))
                # A chart that is moved by the mouse is bound to its own scales.
                if is_named and (key, each.get(key)) != ("bind", "scales"):
                    return True
            waiting += [*each, *each.values()]
        elif isinstance(each, list):
            waiting += each
        elif isinstance(each, str) and (
            _ADDRESS.search(_CONTROLS.sub("", each)) or (texts and texts.fullmatch(each))
        ):
            return True
    return False
