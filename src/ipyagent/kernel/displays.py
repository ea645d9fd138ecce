"""Displays: images in the form that models take, and bundles of MIME types as a page draws them.

A card is sanitized text and images: what a page draws with renderers of its own is published
beside it, as the cell's own output. Jupyter draws a Series as text, the colors of a styled table by
a style sheet, and a chart of Altair as a page of HTML or of a version that JupyterLab does not
draw.

Code on a copy of the kernel has no network, but the page that draws its chart has: a picture's
address could carry data out. So only charts of data alone are let through from there: nothing that
is an address, or could become one.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import io
import json
import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ipyagent.json_types import JsonDict
from ipyagent.kernel.threads import own_context
from ipyagent.schema import ImageContent
from ipyagent.values.describe.safe_inspect import module_name

if TYPE_CHECKING:
    from PIL import Image


LONG_SIDE = 1568
"""Pixels; services scale larger images down themselves, but charge for the full size."""


_SENT = {"PNG": "image/png", "JPEG": "image/jpeg", "MPO": "image/jpeg"}
_READ = ("PNG", "JPEG", "GIF", "WEBP")
_URL_SAFE = str.maketrans("-_", "+/")


def as_image(data: bytes | str) -> ImageContent | None:
    """Return a PNG or JPEG, scaled down if large; None if it cannot be read.

    Its type is read from the data: services refuse an image that is not what it is said to be.
    """
    return own_context().run(_read_image, data)


def _read_image(data: bytes | str) -> ImageContent | None:
    from PIL import Image

    try:
        if isinstance(data, str):  # also as a data URL
            data = base64.b64decode(data.rpartition(",")[2].translate(_URL_SAFE))
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(data), formats=_READ) as image:
                kind = _SENT.get(image.format or "")
                if kind is None or max(image.size) > LONG_SIDE:
                    return _scale_down(image, kind or "image/png")
                return _content(data, kind, image.size)
    except (
        OSError, ValueError, SyntaxError, binascii.Error,
        Image.DecompressionBombError, Image.DecompressionBombWarning,
    ):  # fmt: skip
        return None


def _scale_down(image: Image.Image, media_type: str) -> ImageContent:
    small, buffer = image.copy(), io.BytesIO()
    small.thumbnail((LONG_SIDE, LONG_SIDE))
    small.save(buffer, media_type.removeprefix("image/").upper())
    return _content(buffer.getvalue(), media_type, small.size)


def _content(raw: bytes, media_type: str, size: tuple[int, int]) -> ImageContent:
    encoded = base64.b64encode(raw).decode("ascii")
    return ImageContent(media_type=media_type, data=encoded, width=size[0], height=size[1])


def open_figures() -> dict[int, Any]:
    """Return the open matplotlib figures by number, if nothing else shows and closes them."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None or "inline" in str(pyplot.get_backend()):
        return {}
    helpers = sys.modules["matplotlib._pylab_helpers"]
    return {number: manager.canvas.figure for number, manager in helpers.Gcf.figs.items()}


def take_figures(before: dict[int, object]) -> list[bytes]:
    """Return the figures opened since `before` as PNG, and close them."""
    taken = []
    for number, figure in open_figures().items():
        if before.get(number) is not figure:
            buffer = io.BytesIO()
            with contextlib.suppress(Exception):  # a broken figure fails only when it is drawn
                figure.savefig(buffer, format="png", bbox_inches="tight")
                taken.append(buffer.getvalue())
            sys.modules["matplotlib.pyplot"].close(figure)
    return taken


_KINDS = {
    r"application/vnd\.plotly\..+": "plotly figure",
    r"application/vnd\.vegalite\..+": "Vega-Lite chart",
    r"application/vnd\.vega\..+": "Vega chart",
    r"application/vnd\.jupyter\.widget-view\+json": "widget",
    r"application/vnd\.bokehjs_.+": "Bokeh figure",
    r"application/vnd\.holoviews_.+": "HoloViews figure",
    r"application/geo\+json": "GeoJSON map",
}

_KINDS_WITHOUT_CARD = {
    r"text/latex": "formula",
    r"application/json": "JSON",
    r"application/pdf": "PDF",
    r"image/.+": "image",
    r"text/vnd\.mermaid": "Mermaid diagram",
    r"application/vnd\..+": "figure",
}
"""Kinds of bundles in which there is nothing that a card draws."""

WRITTEN = ("formula", "JSON")
"""Kinds of which a card has the text."""
IN_CARDS = {"text/html", "text/markdown", "image/png", "image/jpeg"}

_MARKUP = {"text/html", "application/javascript"}
_OURS = "application/vnd.ipyagent."
"""Types of our own cards: code cannot show one as if a run had made it."""

SHOWN = ", shown to the user]"
"""The end of the line that tells a model of a bundle."""
NAMES_OF_OBJECTS = ("<IPython.core.display.", "<IPython.lib.display.")


@dataclass(frozen=True)
class PageBundle:
    """A bundle for the page, as code displayed it."""

    data: JsonDict
    metadata: JsonDict
    display_id: str | None


def page_kind(bundle: JsonDict) -> str | None:
    """Return the name of what only a page draws; None if a card can hold the bundle."""
    kinds = _KINDS if IN_CARDS & bundle.keys() else _KINDS | _KINDS_WITHOUT_CARD
    mimes = [mime for mime in map(str, bundle) if not mime.startswith(_OURS)]
    found = (kind for form, kind in kinds.items() for mime in mimes if re.fullmatch(form, mime))
    return next(found, None)


def without_markup(bundle: JsonDict) -> JsonDict:
    """Return a bundle for a page without what would run there: the page draws the rest."""
    return bundle if page_kind(bundle) is None else without_pages(bundle)


def without_pages(bundle: JsonDict) -> JsonDict:
    """Return a bundle without pages of HTML and scripts."""
    return {mime: value for mime, value in bundle.items() if mime not in _MARKUP}


def describe_page_bundle(bundle: JsonDict, kind: str) -> str:
    """Return the words for a model: text that it can read, never the data of a figure."""
    texts = [bundle.get(mime) for mime in ("text/plain", "text/latex")]
    text = next((each for each in texts if isinstance(each, str) and each), "")
    readable = kind not in _KINDS.values() and not text.startswith(NAMES_OF_OBJECTS)
    return "\n".join([*([text] if text and readable else []), f"[{kind}{SHOWN}"])


def explain_absence(kind: str) -> str:
    """Return the words for a user whose front end cannot draw it."""
    return f"[{kind}: a terminal cannot draw it; run this in a notebook, such as JupyterLab]"


_RUNS = re.compile(r"<(?:iframe|script|object|embed|video|audio|canvas)\b", re.IGNORECASE)
_DRAWN = {"img", "table"}
_TO_BE_FILLED = re.compile(r"<img\b(?![^>]{0,1000}\ssrc\s*=)[^>]{0,1000}>", re.IGNORECASE)
"""A picture that a script puts in, as the frames of an animation of Matplotlib."""
_FEW = 200
"""Characters that stand beside a frame, such as the advice to trust the notebook."""
NOT_RUN = (
    "[HTML with scripts, a frame or media, which a card does not run: show it in a cell of your "
    "own, or save it to a file]"
)


def only_runs(html: str) -> bool:
    """Return whether HTML draws next to nothing without what runs in it, as folium's map."""
    if not _RUNS.search(html):
        return False
    import nh3

    hidden = {"script", "style", "iframe", "object"}
    left = nh3.clean(_TO_BE_FILLED.sub("", html), tags=_DRAWN, clean_content_tags=hidden)
    return "<" not in left and len(left.strip()) <= _FEW


def publishable(bundle: JsonDict, kind: str) -> JsonDict:
    """Return the bundle as JSON, with a text for exports that draw nothing else of it."""
    own = {mime: value for mime, value in bundle.items() if not str(mime).startswith(_OURS)}
    return {
        "text/plain": f"[{kind}: nothing that draws it is installed where this is shown]"
    } | as_json(own)


def as_json(bundle: JsonDict) -> JsonDict:
    """Return a bundle as nbformat holds it."""
    return {str(mime): _as_json(str(mime), value) for mime, value in bundle.items()}


def _as_json(mime: str, value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    # Kept as it is where nbformat allows that, if it is JSON at all.
    text = value if isinstance(value, str) else json.dumps(value, default=repr, ensure_ascii=False)
    text = text.encode(errors="replace").decode()
    if isinstance(value, str) or not mime.endswith("json"):
        return text
    return json.loads(text, parse_constant=lambda _: None)  # JSON has no NaN


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


LARGEST = 2_000_000
"""Characters of a chart."""

_PLOTLY, _ANY_VEGALITE = "application/vnd.plotly.v1+json", r"application/vnd\.vegalite\.v\d\+json"
_SCHEMA = re.compile(r"https://vega\.github\.io/schema/vega-lite/v[\d.]+\.json")
_REACHING = re.compile(
    r"(?<![a-z])(?:url|src|srcset|source|images?|geojson|topojson|usermeta|loader|bind)(?![a-z])"
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
_WITH_MAPS = re.compile(
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
        is_vegalite = re.fullmatch(_ANY_VEGALITE, mimes[0])
        rest = {key: value for key, value in chart.items() if key != "$schema"}
        schema = _SCHEMA.fullmatch(str(chart.get("$schema")))
        is_plain = bool(is_vegalite and schema) and not _reaches_out(rest, _COMPUTED, _WITH_MAPS)
    text = {"text/plain": str(bundle.get("text/plain", ""))[:LARGEST]}
    return {mimes[0]: chart, **text} if is_plain else None


def _is_plain_figure(figure: JsonDict) -> bool:
    """Return whether a figure of plotly reaches for nothing; its template names all traces."""
    layout = figure.get("layout", {})
    if not isinstance(layout, dict):
        return False
    rest = {key: value for key, value in layout.items() if key != "template"}
    return not (
        _reaches_out({**figure, "layout": rest}, None, _WITH_MAPS)
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
