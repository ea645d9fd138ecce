"""The gist of a call: its kind, a title and its changes, so that many can be scanned."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator

from ipyagent import schema
from ipyagent.phrases import join_some, plural, word_set
from ipyagent.ui import transcript
from ipyagent.ui.reveal import LINE, reveal, shorten
from ipyagent.ui.transcribe.call_texts import in_order, parse_code, summarize_call

_NAMED = 2
"""Names in a title; more are counted."""

_VERBS = word_set("delete edit find insert inspect list load move read run save write")
_PLOTS = word_set("bar barh boxplot hist imshow line pie plot scatter violinplot")
_READS = word_set("open glob listdir")
_DELETES = word_set("remove rmdir rmtree unlink")
_WRITES = word_set("dump rename save savefig write write_bytes write_text")
_TELLING = ("deletes", "writes", "reads", "sets", "fits", "plots", "defines")
_REST = ("makes", "looks at", "imports")
_FILE = re.compile(r"[^\s*?]*\w\.[A-Za-z]\w{0,7}")


def find_gist(execution: schema.ToolExecution, summary: str) -> transcript.Gist:
    """Return the gist of a call; `summary` is its own where that says more than its arguments."""
    return transcript.Gist(
        kind=_find_kind(execution),
        title=shorten(_find_title(execution, summary), LINE),
        changes=tuple(_list_changes(execution)),
    )


def _find_kind(execution: schema.ToolExecution) -> transcript.Kind:
    if execution.question:
        return "question"
    if execution.preview and execution.preview.kind == "diff":
        return "file"
    looked = execution.decided_by is schema.DecidedBy.REHEARSAL
    return "change" if execution.sensitive and not looked else "look"


def _find_title(execution: schema.ToolExecution, summary: str) -> str:
    call, code = execution.call, execution.call.arguments.get("code")
    if summary:
        return summary
    if isinstance(code, str):
        return title_code(code)
    verb, _, noun = reveal(call.name).partition("_")
    verb = f"{verb}s" if verb in _VERBS else verb
    rest = summarize_call(execution) if in_order(call) else ""
    return f"{verb} {noun.replace('_', ' ')} {rest}"


def title_code(code: str) -> str:
    """Return a title for code: the comment that it begins with, else what its names tell."""
    begin = code.lstrip()
    if begin.startswith("#"):
        return begin.partition("\n")[0].lstrip("# ")
    found: dict[str, list[str]] = {}
    for node in ast.walk(ast.Module(parse_code(code) or [], [])):
        for verb, name in _find_facts(node):
            if name not in found.setdefault(verb, []):
                found[verb].append(name)
    lines = plural(code.strip().count("\n") + 1, "line")
    return ", ".join([*_tell(found)][:_NAMED]) or f"runs {lines}"


def _find_facts(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield what a node tells, each as a verb and a name."""
    match node:
        case ast.Name(id=name, ctx=ast.Del()):
            yield "deletes", name
        case ast.Name(id=name, ctx=ast.Load()) if not hasattr(builtins, name):
            yield "looks at", name
        case (
            ast.Assign(targets=[ast.Name(name), *_])
            | ast.AnnAssign(target=ast.Name(name))
            | ast.AugAssign(target=ast.Name(name))
        ):
            yield "makes", name
        case ast.Subscript(ast.Name(frame), ast.Constant(str(column)), ast.Store()):
            yield "sets", f"{column} of {frame}"
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield "defines", name
        case ast.alias(name=name, asname=short):
            yield "imports", short or name.partition(".")[0]
        case ast.Constant(str(text)) if _FILE.fullmatch(text):
            yield "files", text
        case ast.Call(func=ast.Name(name)) | ast.Call(func=ast.Attribute(attr=name)):
            yield from _find_call(node, name)


def _find_call(node: ast.Call, name: str) -> Iterator[tuple[str, str]]:
    """Yield what a call tells: outer calls come first, so a chain reads from its end."""
    texts = [each.value for each in node.args if isinstance(each, ast.Constant)]
    if name in _DELETES or name in _WRITES or name.startswith("to_"):
        verb = "deletes" if name in _DELETES else "writes"
        yield from ((verb, each) for each in texts if isinstance(each, str))
    elif name in _READS or name.startswith("read_"):
        yield "reads", name
    elif name not in _PLOTS and name != "fit":
        if isinstance(node.func, ast.Attribute):
            yield "calls", name
    else:
        parts = [node.func] if name == "fit" else [*node.args[:1], node.func]
        names = [n.id for part in parts for n in ast.walk(part) if isinstance(n, ast.Name)]
        yield from (("fits" if name == "fit" else "plots", each) for each in names[:1])


def _tell(found: dict[str, list[str]]) -> Iterator[str]:
    """Yield what code does: first what changes most; looks and imports if there is no more."""
    made, written = found.get("makes", []), found.get("writes", [])
    if "reads" in found:
        files = [each for each in found.get("files", []) if each not in written]
        what = files[0] if len(files) == 1 else plural(len(files), "file") if files else "files"
        found["reads"] = [f"{what} → {made[-1]}" if made else what]
    columns = found.get("sets", [])
    if len(columns) > 1 and len(frames := {each.rpartition(" of ")[2] for each in columns}) == 1:
        found["sets"] = [f"{plural(len(columns), 'column')} of {frames.pop()}"]
    if "looks at" in found and (called := found.get("calls")):
        looked = join_some(found["looks at"], _NAMED)
        found["looks at"] = [f"{looked}: {join_some(called[::-1], _NAMED)}"]
    telling = [verb for verb in _TELLING if verb in found] or [*filter(found.get, _REST)][:1]
    yield from (f"{verb} {join_some(found[verb], _NAMED)}" for verb in telling)


def _list_changes(execution: schema.ToolExecution) -> Iterator[transcript.EffectLine]:
    """Yield the variables and files that a call changed; a diff names its own file."""
    result = execution.result
    for each in result.variables if result else ():
        parts = each.summary.split(" · ") if each.change == "changed" else [each.change]
        parts = parts[1:] if len(parts) > 1 and " × " in parts[0] else parts  # noqa: RUF001
        yield transcript.EffectLine(
            change=each.change, text=shorten(f"{each.name} {' · '.join(parts)}", LINE)
        )
    has_diff = execution.preview and execution.preview.kind == "diff"
    for file in result.files if result and not has_diff else ():
        change = "created" if file.before is None else "changed" if file.after else "deleted"
        yield transcript.EffectLine(change=change, text=shorten(f"{file.path} {change}", LINE))
