"""Images of a saved run: in a notebook they stand once, in the HTML beside the run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ipyagent.json_types import JsonDict

RUN_MIME: Final = "application/vnd.ipyagent.run+json"
"""The MIME type of a run in a notebook's outputs."""

_SOURCE: Final = re.compile(r'<img src="data:image/\w+;base64,([^"]+)"')
_REFERENCE: Final = re.compile(r"html:(\d{1,9})")
"""Stands for an image of the HTML, from 0 on; `labextension/src/saved.ts` reads it."""


def refer_to_html(run: JsonDict, html: str) -> None:
    """Replace the images of a run that stand in the HTML by references."""
    places = {image: number for number, image in enumerate(_SOURCE.findall(html))}
    for holder, name in _find_images(run):
        if holder[name] in places:
            holder[name] = f"html:{places[holder[name]]}"


def fill_from_html(run: object, html: str) -> None:
    """Put the images of the HTML back into a run; a reference to none is left."""
    images = _SOURCE.findall(html)
    for holder, name in _find_images(run):
        found = _REFERENCE.fullmatch(holder[name])
        if found and int(found[1]) < len(images):
            holder[name] = images[int(found[1])]


def _find_images(run: object) -> Iterator[tuple[JsonDict, str]]:
    """Yield the objects that hold an image, with the field; arguments of calls hold none."""
    waiting = [run]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            for name, inner in value.items():
                if not isinstance(inner, str):
                    waiting += [inner] if name != "arguments" else []
                elif name == "data" or name.startswith("image/"):
                    yield value, name
