"""Markdown that is safe in every renderer, also in those that allow raw HTML.

Renderers disagree on where code, math and HTML begin, and each disagreement is a way in. So the
text is parsed once and rewritten in a form that leaves nothing to disagree about: everything
special is an entity, and `<`, `$` and a backslash appear only in fences at the left margin.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

from ipyagent.kernel.request_logs import own_context
from ipyagent.plaintext import reveal_prose, strip_escapes
from ipyagent.ui.addresses import may_link, may_show, not_loaded, unnamed_target

PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def parse_markdown(text: str) -> list[Token]:
    """Return Markdown as tokens; the parser's log is not the user's."""
    return own_context().run(PARSER.parse, text)


_BLANK = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_SPECIAL = re.compile(r"[\\`*_\[\]{}<>&~|#$]|!$|^[-+=%]|^:(?=::)|^\d(?=\d*[.)](?:\s|$))")
_TEX_MACRO = re.compile(r"&#92;(?=[A-Za-z])")
# What some renderers read even inside a code span: HTML, math, escapes, table cells, links.
_NOT_IN_CODE = re.compile(r"([<$\\|`]|\](?=\())")
_NOT_IN_URL = re.compile(r"[^A-Za-z0-9\-._~:/?#@&+,;=%]")
_LANGUAGE = re.compile(r"[A-Za-z0-9_+#.-]{1,30}")


def safe_markdown(text: str) -> str:
    """Return the Markdown without raw HTML, remote images and links that run something."""
    return _blocks(_tree(text).children, nested=False)


def block_quote(text: str) -> str:
    """Return the Markdown as a block quote."""
    return _prefix_lines(_blocks(_tree(text).children, nested=True), "> ", "> ")


def literal(text: str) -> str:
    """Return text that every renderer takes for plain text, in one line."""
    entities = _SPECIAL.sub(lambda m: f"&#{ord(m[0])};", _BLANK.sub(" ", reveal_prose(text)))
    # A word joiner after the backslash: MathJax reads the finished page, where entities are gone.
    return _TEX_MACRO.sub("&#92;&#8288;", entities)


def fence(text: str, language: str = "") -> str:
    """Return text as a code block that nothing inside it can close."""
    text = reveal_prose(text).rstrip("\n")
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    marks = "`" * max(3, longest + 1)
    info = language if _LANGUAGE.fullmatch(language) else ""
    return f"{marks}{info}\n{text}\n{marks}"


def code(text: str) -> str:
    """Return a code span, interrupted where a character should not be in one."""
    pieces = _NOT_IN_CODE.split(_BLANK.sub(" ", reveal_prose(text)))
    spans = (f"`{piece}`" if piece.strip() else piece for piece in pieces[::2])
    marks = (literal(mark) for mark in [*pieces[1::2], ""])
    return "".join(part for pair in zip(spans, marks, strict=True) for part in pair)


def _tree(text: str) -> SyntaxTreeNode:
    return SyntaxTreeNode(parse_markdown(reveal_prose(strip_escapes(text))))


def _blocks(nodes: Sequence[SyntaxTreeNode], *, nested: bool) -> str:
    parts: list[str] = []
    for node in nodes:
        # A list right below its item's text stays there, or a tight list would become loose.
        close = parts and node.type.endswith("_list") and _tight(node.previous_sibling)
        parts += ["\n" if close else "\n\n", _block(node, nested=nested)]
    return "".join(parts[1:])


def _block(node: SyntaxTreeNode, *, nested: bool) -> str:
    match node.type:
        case "heading":
            return f"{'#' * int(node.tag[1])} {_inline(node, joint=' ')}"
        case "paragraph":
            return _inline(node)
        case "blockquote":
            return _prefix_lines(_blocks(node.children, nested=True), "> ", "> ")
        case "bullet_list" | "ordered_list":
            return _list(node)
        case "table":
            return _table(node)
        case "hr":
            return "___"
        case _:  # fence and code_block
            return _code_lines(node.content) if nested else fence(node.content, node.info.strip())


def _list(node: SyntaxTreeNode) -> str:
    number = int(node.attrs.get("start", 1))
    items = []
    for position, item in enumerate(node.children):
        marker = "- " if node.type == "bullet_list" else f"{number + position}. "
        body = _blocks(item.children, nested=True)
        items.append(_prefix_lines(body, marker, " " * len(marker)))
    tight = all(_tight(child) for item in node.children for child in item.children)
    return ("\n" if tight else "\n\n").join(items)


def _tight(node: SyntaxTreeNode | None) -> bool:
    """Return whether no blank line belongs below it: a tight item's text, or a list."""
    return node is not None and (node.hidden or node.type.endswith("_list"))


def _table(node: SyntaxTreeNode) -> str:
    rows = [row for section in node.children for row in section.children]
    rule = "| " + " | ".join(_alignment(cell) for cell in rows[0].children) + " |"
    lines = ["| " + " | ".join(_inline(c, joint=" ") for c in row.children) + " |" for row in rows]
    return "\n".join([lines[0], rule, *lines[1:]])


def _alignment(cell: SyntaxTreeNode) -> str:
    style = str(cell.attrs.get("style", ""))
    left, right = "left" in style or "center" in style, "right" in style or "center" in style
    return f"{':' if left else ''}---{':' if right else ''}"


def _inline(node: SyntaxTreeNode, joint: str = "\n") -> str:
    """Return the spans below `node`; `joint` stands for a line break."""
    return "".join(_span(child, joint) for child in node.children)


def _span(node: SyntaxTreeNode, joint: str) -> str:
    match node.type:
        case "inline":
            return _inline(node, joint)
        case "softbreak":
            return joint
        case "hardbreak":
            return "  \n" if joint == "\n" else joint
        case "s" if node.parent is not None and node.parent.type == "s":
            return _inline(node, joint)  # four tildes would open a fence
        case "em" | "strong" | "s":
            mark = {"em": "*", "strong": "**", "s": "~~"}[node.type]
            return f"{mark}{_inline(node, joint)}{mark}"
        case "code_inline":
            return code(node.content)
        case "link":
            return _link(node, joint)
        case "image":
            return _image(node)
        case _:
            return literal(node.content)


def _code_lines(text: str) -> str:
    """Return code inside a list or quote, where renderers disagree about fences."""
    lines = text.rstrip("\n").split("\n")
    indents = (len(line) - len(line.lstrip()) for line in lines)
    spans = ("&#160;" * n + code(line.strip()) for n, line in zip(indents, lines, strict=True))
    return "  \n".join(spans)


def _link(node: SyntaxTreeNode, joint: str) -> str:
    inner, url = _inline(node, joint), str(node.attrs.get("href", ""))
    if not may_link(url):
        return inner
    target = unnamed_target(url, "".join(child.content for child in node.walk()))
    return f"[{inner}]({_encode_url(url)})" + (f" ({literal(target)})" if target else "")


def _image(node: SyntaxTreeNode) -> str:
    url = str(node.attrs.get("src", ""))
    if not may_show(url):
        return literal(not_loaded(node.content, url))
    return f"![{literal(node.content)}]({url})"


def _encode_url(url: str) -> str:
    return _NOT_IN_URL.sub(lambda m: "".join(f"%{byte:02X}" for byte in m[0].encode()), url)


def _prefix_lines(text: str, first: str, others: str) -> str:
    lines = [f"{others}{line}" for line in text.split("\n")]
    lines[0] = first + lines[0].removeprefix(others)
    return "\n".join(line if line.strip(" >") else line.rstrip() for line in lines)
