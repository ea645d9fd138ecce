"""Images in the form that models take, and figures that code left open."""

from __future__ import annotations

import base64
import binascii
import contextlib
import io
import sys
import warnings
from typing import TYPE_CHECKING, Any

from ipyagent.kernel.threads import own_context
from ipyagent.schema import ImageContent

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
                    return _encode_image(_scale_down(image), kind or "image/png")
                return _content(data, kind, image.size)
    except (
        OSError, ValueError, SyntaxError, binascii.Error,
        Image.DecompressionBombError, Image.DecompressionBombWarning,
    ):  # fmt: skip
        return None


def _scale_down(image: Image.Image) -> Image.Image:
    small = image.copy()
    small.thumbnail((LONG_SIDE, LONG_SIDE))
    return small


def _encode_image(image: Image.Image, media_type: str) -> ImageContent:
    buffer = io.BytesIO()
    image.save(buffer, media_type.removeprefix("image/").upper())
    return _content(buffer.getvalue(), media_type, image.size)


def _content(raw: bytes, media_type: str, size: tuple[int, int]) -> ImageContent:
    encoded = base64.b64encode(raw).decode("ascii")
    return ImageContent(media_type=media_type, data=encoded, width=size[0], height=size[1])


def open_figures() -> dict[int, object]:
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
            with contextlib.suppress(Exception):  # a broken figure fails only when it is drawn
                taken.append(_render_figure(figure))
            sys.modules["matplotlib.pyplot"].close(figure)
    return taken


def _render_figure(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", bbox_inches="tight")
    return buffer.getvalue()
