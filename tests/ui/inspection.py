"""What a page could do, found out with parsers that have nothing to do with the sanitizer."""

from __future__ import annotations

import html
import re
import unicodedata

from bs4 import BeautifulSoup, Tag

from ipyagent.ui.sanitize import FORMULA, formula_html

READABLE = re.compile(
    r"a|b|blockquote|br|caption|code|d[dlt]|data|del|details|div|em|h[1-6r]|i|img|ins|kbd|li|mark|[ou]l"
    r"|p|pre|s|samp|small|span|strong|su[bp]|summary|t[dhr]|table|tbody|tfoot|thead|u|var"
)
HARMLESS = {"align", "alt", "colspan", "height", "rel", "rowspan", "start", "width"}
WEB = re.compile(r"(https?://|mailto:)", re.IGNORECASE)
LANGUAGE = re.compile(r"language-[\w+#-]{1,40}")
BITMAP = re.compile(r"data:image/(png|jpeg|gif|webp);base64,[\w+/=\s]*", re.IGNORECASE)


def dangers(html: str, ours: dict[str, set[str]] | None = None) -> list[str]:
    """What in `html` could run, load, submit or pass for a part of our card.

    `ours` maps attributes that we set ourselves to the values that they may have.
    """
    found = []
    for tag in BeautifulSoup(html, "html.parser").find_all(True):
        if not READABLE.fullmatch(tag.name):
            found.append(f"<{tag.name}>")
        for name, value in tag.attrs.items():
            value = " ".join(value) if isinstance(value, list) else str(value)
            if not _is_harmless(tag, name, value, ours or {}):
                found.append(f"<{tag.name} {name}={value!r}>")
    return found


def _is_harmless(tag: Tag, name: str, value: str, ours: dict[str, set[str]]) -> bool:
    if name in ours and (value in ours[name] or {*value.split()} <= ours[name]):
        return True
    match tag.name, name:
        case "a", "href":
            return WEB.match(value) is not None
        case "td" | "th", "bgcolor":
            return re.fullmatch("#[0-9a-f]{6}", value) is not None
        case "code", "class":
            return bool(LANGUAGE.fullmatch(value)) or (
                value == FORMULA and formula_html(tag.text) != ""
            )
        case "img", "src":
            return BITMAP.fullmatch(value) is not None
    return name in HARMLESS


def read(colored: str) -> str:
    """The text of code in colors, as a page has it."""
    return html.unescape(re.sub(r"</?(?:b|samp|data|i|var|ins|del)>", "", colored))


def controls(text: str) -> set[str]:
    """The control characters in a text, but newline and tab."""
    return {char for char in text if unicodedata.category(char) == "Cc"} - {"\n", "\t"}
