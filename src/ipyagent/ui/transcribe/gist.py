"""The gist of a call: its kind, a title and its changes, so that many can be scanned."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ipyagent import schema
from ipyagent.plaintext import join_some, plural, word_set
from ipyagent.ui import transcript
from ipyagent.ui.reveal import LINE, reveal, shorten
from ipyagent.ui.transcribe.call_texts import in_order, summarize_call

_NAMED = 2
"""Names in a title; more are counted."""

_LONG = 20_000
"""Characters of code that are looked at."""

_OWN = word_set("delegate delete edit find insert inspect list load move query read run save write")
"""Verbs with which the names of tools begin."""

_TEXT = r"""\(\s*f?["']([^"'\n]+)"""
_NAME = r"(?!(?:np|pd|pl|plt|sns|print|len)\b)([A-Za-z_]\w*)"
_FACTS = {
    "deletes": rf"^\s*del +(\w+)|\b(?:remove|rmdir|rmtree|unlink){_TEXT}",
    "writes": rf"\b(?:to_\w+|dump|rename|savefig|write\w*){_TEXT}",
    "reads": r"\b(?:open|glob|listdir|read_\w+)(\()",
    "sets": r"""^\s*(\w+\[["'][^"'\n]+["'])\] *[-+*/]?=(?!=)""",
    "plots": rf"\b{_NAME}\.\w*plot\b|\b(?:plt|ax|sns)\.\w+\({_NAME}",
    "defines": r"^(?:async )?(?:def|class) +(\w+)",
    "makes": r"^(\w+)(?:: *[^=\n]+)? *=(?!=)",
    "looks at": rf"(?<![.\w]){_NAME}(?=[.\[])(\.\w+)?",
    "imports": r"^(?:import|from) +(\w+)",
}
"""The marks of what code does, first what changes most, each with the name that it is done to."""

_ASIDE = ("makes", "looks at", "imports")
"""Facts that are named only where there is no other."""

_FILE = re.compile(r"""["']([^"'\s*?]*\w\.[A-Za-z]\w{0,7})["']""")


def find_gist(execution: schema.ToolExecution, summary: str) -> transcript.Gist:
    """Return the gist of a call; `summary` is its own where that says more than its arguments."""
    kind, title = _find_kind(execution), summary or _find_title(execution)
    if kind != "look":  # a method may change what it is called on
        title = title.replace("looks at ", "works on ", 1)
    return transcript.Gist(
        kind=kind,
        title=shorten(title, LINE),
        changes=tuple(_list_changes(execution)),
    )


def _find_kind(execution: schema.ToolExecution) -> transcript.Kind:
    if execution.question:
        return "question"
    if execution.preview and execution.preview.kind == "diff":
        return "file"
    looked = execution.decided_by is schema.DecidedBy.REHEARSAL
    child = execution.result.child if execution.result else None
    is_change = execution.has_changes if child else execution.sensitive and not looked
    return "change" if is_change else "look"


def _find_title(execution: schema.ToolExecution) -> str:
    call, code = execution.call, execution.call.arguments.get("code")
    if isinstance(code, str):
        return title_code(code)
    verb, _, noun = reveal(call.name).partition("_")
    if execution.preview and (place := execution.preview.place):
        return f"{verb}s {place}"
    rest = summarize_call(execution) if in_order(call) else ""
    return f"{verb}{'s' * (verb in _OWN)} {noun.replace('_', ' ')} {rest}"


def title_code(code: str) -> str:
    """Return a title for code: the comment that it begins with, else what its names tell.

    It is for scanning, and nobody decides by it: code may do more than it says.
    """
    begin = code[:_LONG].lstrip()
    if begin.startswith("#"):
        return begin.partition("\n")[0].lstrip("# ")
    found: dict[str, list[str]] = {}
    for verb, marks in _FACTS.items():
        names = map("".join, re.findall(f"(?m){marks}|$^()", begin))
        found[verb] = list(dict.fromkeys(filter(None, names)))
    if found["reads"]:
        files = [
            each for each in dict.fromkeys(_FILE.findall(begin)) if each not in found["writes"]
        ]
        what = files[0] if len(files) == 1 else plural(len(files), "file") if files else "files"
        found["reads"] = [" → ".join([what, *found["makes"][-1:]])]
    if sets := found["sets"]:
        frames = list(dict.fromkeys(each.partition("[")[0] for each in sets))
        what = plural(len(sets), "column") if len(sets) > 1 else sets[0].partition("[")[2][1:-1]
        found["sets"] = [f"{what} of {join_some(frames, _NAMED)}"]
    verbs = [verb for verb in _FACTS if found[verb]]
    telling = [verb for verb in verbs if verb not in _ASIDE][:_NAMED] or verbs[:1]
    title = ", ".join(f"{verb} {join_some(found[verb], _NAMED)}" for verb in telling)
    return title or f"runs {plural(begin.rstrip().count(chr(10)) + 1, 'line')}"


def _list_changes(execution: schema.ToolExecution) -> Iterator[transcript.EffectLine]:
    """Yield the variables and files that a call changed; a diff names its own file."""
    result = execution.result or schema.ToolResult()
    for each in result.variables:
        parts = each.summary.split(" · ") if each.change == "changed" else [each.change]
        parts = parts[1:] if len(parts) > 1 and " × " in parts[0] else parts  # noqa: RUF001
        text = shorten(f"{each.name} {' · '.join(parts)}", LINE)
        yield transcript.EffectLine(change=each.change, text=text)
    has_diff = execution.preview and execution.preview.kind == "diff"
    for file in () if has_diff else result.files:
        change: transcript.Change
        change = "created" if file.before is None else "changed" if file.after else "deleted"
        yield transcript.EffectLine(change=change, text=shorten(f"{file.path} {change}", LINE))
