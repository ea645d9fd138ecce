"""Signs in texts: of actions that a reply only announces, of yes and no.

*Announcements* are replies that announce actions, or write calls as text, and call nothing. Their
reader expects something to happen, or waits for a question that never comes. The signs are a
tool that is named but not called, a heading "Plan" with a numbered list, a request to answer "yes".
A wrong guess costs one more request and never an answer.

*Yes and no*: a prompt that is one such word decides on a waiting plan. In English, Spanish and
Chinese: in other languages `%agent approve` and the buttons do it. Some words can only refer to
something that waits; others, as *yes*, may also answer a question of the model's, and *go* is a
prompt if nothing waits.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Set as AbstractSet

from ipyagent.agent.approvals import Answer
from ipyagent.agent.session.session import Session
from ipyagent.errors import SessionError
from ipyagent.schema import DecidedBy, Decision, Outcome

_END = 4_000
"""Characters at the beginning and at the end of a reply in which it may announce something."""


def announces_actions(text: str, offered: AbstractSet[str], called: AbstractSet[str]) -> bool:
    """Return whether `text` announces actions; `offered` and `called` are names of tools."""
    if not offered:
        return False
    prose = _ends_of(_FENCE.sub("\n", text) if "```" in text or "~~~" in text else text)
    prose = unicodedata.normalize("NFKC", prose).replace("\u2019", "'").casefold()
    sentences = [each for each in _SENTENCE_END.split(prose) if each.strip()]
    return (
        _announces_tool(sentences, offered - called)
        or _has_headed_plan(prose)
        or any(_REPLY_YES.search(each) for each in sentences)
    )


def writes_calls(text: str, offered: AbstractSet[str]) -> bool:
    """Return whether `text` is a call in the form of a model's template, which no server read.

    Text about such forms is left alone: in code, or with prose before and after.
    """
    if not offered:
        return False
    prose = _INLINE.sub(" ", _FENCE.sub("\n", text))
    if mark := _WRITTEN_CALL.search(prose):
        *_, after = _CALL_END.split(prose[mark.start() :])
        before = prose[: mark.start()].strip()
        return not before or (len(before) < _END and not after.strip())
    text = text.strip()
    if call := _PYTHONIC.fullmatch(text):
        return call[1] in offered
    if call := _AS_TAG.search(text):
        tag, name = call[1] or "tool", call[1] or call[2]
        return name in offered and (not call.start() or text.endswith(f"</{tag}>"))
    named = (call for call in _NAMED_CALL.finditer(prose) if call[1] in offered)
    if (call := next(named, None)) and call.start() < _END:
        return prose.rstrip().endswith(("}", "})", "})]", "|>"))
    return _is_call_in_json(text, offered)


def _is_call_in_json(text: str, offered: AbstractSet[str]) -> bool:
    """Return whether a reply is a call in JSON, fenced or not, after at most a short sentence."""
    if fenced := _JSON_AT_END.fullmatch(text):
        text = fenced[1].strip()
    if text[:1] not in ("{", "["):
        return False
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return False
    rest = text[end:].strip()
    return (rest[:1] in ("", "{", ";") or rest[:2] == "</") and _is_call(value, offered)


def _is_call(value: object, offered: AbstractSet[str]) -> bool:
    if isinstance(value, list):
        return bool(value) and all(_is_call(each, offered) for each in value)
    if not isinstance(value, dict):
        return False
    inner = next(filter(None, map(value.get, _CALLS)), None)
    if isinstance(inner, (dict, list)):
        return _is_call(inner, offered)
    if len(value) == 1 and isinstance(next(iter(value.values())), dict):
        return next(iter(value)) in offered
    name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), "")
    return name.removeprefix("functions.") in offered and any(key in value for key in _ARGUMENTS)


def _ends_of(text: str) -> str:
    return text if len(text) <= 2 * _END else f"{text[:_END]}\n{text[-_END:]}"


def _announces_tool(sentences: list[str], uncalled: AbstractSet[str]) -> bool:
    # A name of one word, such as "search", may be just that word.
    names = "|".join([re.escape(name.casefold()) for name in uncalled if "_" in name])
    if not names:
        return False
    mention = re.compile(rf"(?<![\w./-])(?:{names})(?![\w/-]|\.\w)", re.ASCII)
    calls = re.compile(rf"\s*\d+[.)]\s*`?({names})`?(?=$|[ (][^:]*$)", re.ASCII)
    if len({found[1] for each in sentences if (found := calls.match(each))}) > 1:
        return True
    return any(
        _announces_call(_QUOTED.sub(" ", each.replace("`", "")), mention) for each in sentences
    )


def _announces_call(sentence: str, mention: re.Pattern[str]) -> bool:
    if not mention.search(sentence) or _QUESTION.search(sentence) or _NEGATION.search(sentence):
        return False
    return bool(_INTENT.search(sentence))


def _has_headed_plan(prose: str) -> bool:
    lines = [line for line in prose.splitlines() if line.strip()]
    return any(
        _PLAN.search(title) and len(title.split()) <= _LONGEST_HEADING
        for title in _list_headings(lines)
    )


def _list_headings(lines: list[str]) -> Iterator[str]:
    """Yield lines that may be the heading of a numbered list."""
    for at, line in enumerate(lines):
        title, colon, rest = line.partition(":")
        # Between a heading and its list there may be a line that leads over.
        if any(_ITEM.match(each) for each in (rest if colon else "", *lines[at + 1 : at + 3])):
            yield title.partition("(")[0]


_FENCE = re.compile(r"(?ms)^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)")
_INLINE = re.compile(r"`[^`\n]*`")
_WRITTEN_CALL = re.compile(
    r"""(?mx)(?:^[ \t]*|(?<=[.:!?][ ])|(?<=<\|end\|>))(?:
      (?i:<tool_?(?:call|use)(?:\ name=[^<>\n]{1,80})?>)\s*
        (?:\{|\[|<function|<invoke|<name>|[\w.-]+\s*(?:<arg_key|\{|\(|</))
    | <function[=(][\w.:-]+[)>{\s]
    | <(?:\w+:)?(?:function_calls?|tool_calls?)>\s*(?:<|\{|\[|\w+\()
    | <(?:\w+:)?invoke\s+name= | <tool_code>\s*\S | <tool>\s*\{ | <start_function_call>\s*\S
    | \[TOOL_CALLS\]\s*(?:[\[{]|[\w.-]+\s*(?:\[|\{)) | \[TOOL_REQUEST\]\s*\{
    | <\|python_(?:tag|start)\|>\s*(?:\{|\[|[\w.]+\() | <\|START_ACTION\|>\s*[\[{]
    | <\s?[|\uff5c‖]{1,2}\s?DSML\s?[|\uff5c‖]
    | <[|\uff5c](?:\w+[|\uff5c])?(?:tool|function)[_▁]calls?[\w▁:]*[|\uff5c]?>\s*\S
    | function<[|\uff5c]tool▁sep[|\uff5c]>\w
    | <\w+_tool_call>\s*\S | <tools>\s*[\[{] | Action:\ *[\w.]+\s*\n\s*Action\ Input:
    | \[unused\d+\]\s*[\[{]
    | <\|tools_prefix\|>\s*\[ | <\|action_start\|>\s*\S | functools\[\s*\{ | &lt;tool_call&gt;\s*\{
    | (?:<\|start\|>assistant)?(?:<\|channel\|>(?:commentary|analysis)\ to=|\ to=functions\.)
    | (?:(?:analysis[^\n]{0,300}?)?assistant)?commentary\ to=functions\.
    )"""
)
"""How models write calls where a line begins: Qwen, GLM, Llama, Mistral, DeepSeek, Kimi, …"""
_CALL_END = re.compile(
    r"</[\w:]+>|</?\s?[|\uff5c‖]{1,2}\s?DSML[^\n<>]{0,200}(?:>|\Z)|\[unused\d+\](?=\s*$)|<[|\uff5c][^\n<>]{0,40}[|\uff5c]>|\[END_TOOL_REQUEST\]"
    r"|[}\])](?=\s*$)|\nObservation:[\s\S]*"
)
_PYTHONIC = re.compile(
    r"(?s)(?:```(?:tool_\w+|python|py)\s)?\[?\s*(?:print\()?(?:default_api\.)?"
    r"(\w+)\(.{0,4000}\)\s*\]?(?:\s*```)?"
)
_AS_TAG = re.compile(r"(?m)^[ \t]*<(?:(\w+)>\s*<\w+>|tool\s+name=[\"'](\w+))")
_NAMED_CALL = re.compile(
    r"(?mi)^[ \t]*(?:>>>|to=|call:|declaration:|\[(?:calling tool|tool[ _]call): ?)?"
    r"(?:(?:functions|default_api)[.:])?(\w+)(?::\d+)?(?:\[ARGS\]|\]|<\|\w+\|>|\()?\s*\{"
)
"""A tool's name and an object: Functionary, Kimi, Mistral and Gemini without their marks."""
_JSON_AT_END = re.compile(r"(?s)(?:[^`\n]{0,200}|[^`]{0,2000}\nAction:)\s*```\w*[ \t]*\n(.*)```")
_CALLS = ("tool_calls", "function", "function_call", "tool_call", "tool_uses")
_NAMES = ("name", "recipient_name", "tool", "tool_name", "function", "action")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "tool_input", "action_input")

_QUOTED = re.compile(
    r"`[^`\n]*`|\"[^\"\n]*\"|“[^”\n]*”|«[^»\n]*»|„[^“”\n]*[“”]|「[^」\n]*」|^\s*>.*"
)
_SENTENCE_END = re.compile(r"(?<=\D[.!?…]\s)|(?<=[。!?])(?=[^\x00-\x7f])|\n")
_QUESTION = re.compile(r"\?\W*$")
_ITEM = re.compile(r"\s*(?:[*_]{0,2}\d+[.)、]|(?:step|paso|步骤)\s*\d)")
_LONGEST_HEADING = 6  # words

# English, Spanish and Chinese: an announcement in another language is taken for an answer.
_INTENT = re.compile(
    r"\b(?:will|i'll|going to|let me|calling|first|now)\b"
    r"|\b(?:voy a|vamos a|ahora|llamaré|usaré|ejecutaré)\b"
    r"|将|我会|我来|接下来"
)
"""Words that announce an action."""
_NEGATION = re.compile(r"\b(?:not|no|never|without|cannot|if|nunca|sin|si)\b|n't\b|[不没无]|如果")
"""Words that negate or weaken."""
_PLAN = re.compile(r"\bplan\b|计划")
_REPLY_YES = re.compile(
    r"(?:\b(?:reply|respond|responde|responda)\b|回复)[\s\w:,]{0,12}?[\s\"'“”«»「」*`_]*"
    r"(?:\b(?:yes|ok|confirm|sí|si|confirmo)\b|是|确认)"
    r"|\b(?:confirm|confirma|confirme)\s(?:to|and|so|before|para|y)\b|请确认后"
)


_CONFIRM = frozenset({
    *("confirm", "confirmed", "approve", "approved", "run it", "execute"),
    *("confirmo", "confirmar", "confirmado", "apruebo", "aprobado", "ejecuta", "ejecútalo"),
    *("确认", "批准", "同意", "执行"),
})  # fmt: skip
_GO = frozenset({"go", "go ahead", "proceed", "dale", "adelante"})
_YES = frozenset({
    *("yes", "y", "ok", "okay", "sí", "si", "de acuerdo", "是", "是的", "好", "好的", "可以"),
})  # fmt: skip
_CANCEL = frozenset({
    *("cancel", "deny", "stop", "abort", "取消", "拒绝", "停止"),
    *("cancela", "cancelar", "cancelo", "detener", "detén", "para", "rechazar", "rechazo"),
})  # fmt: skip
_NO = frozenset({"no", "n", "不", "不要", "否", "不同意"})


def parse_yes_no(text: str) -> Decision | None:
    """Return the decision of a prompt; None if it says anything else."""
    word = _normalize(text)
    if word in _CONFIRM or word in _YES or word in _GO:
        return Decision.APPROVED
    return Decision.DENIED if word in _CANCEL or word in _NO else None


NOTHING_WAITS = (
    "no pending plan: nothing waits for {word!r}, so nothing was run and no model was asked. Say "
    "in a sentence what you would like to be done"
)


def find_decision(session: Session, text: str) -> Answer | None:
    """Return a prompt's decision on the waiting plan; None for an ordinary prompt.

    Raises SessionError for a word without anything to decide. A yes or no is a prompt if it may
    answer the model: after an answer that ends with a question, or a run that ended early.
    """
    decision = parse_yes_no(text)
    if decision is None:
        return None
    if session.waiting_plan_id is not None:
        return Answer(decision, DecidedBy.PROMPT)
    word = _normalize(text)
    if word in _GO:
        return None
    if word in _CONFIRM or word in _CANCEL or not _expects_answer(session):
        raise SessionError(NOTHING_WAITS.format(word=text.strip()))
    return None


def _expects_answer(session: Session) -> bool:
    """Return whether the newest run ended with a question, or before it was done."""
    if not session.runs:
        return False
    run = session.runs[-1]
    _, _, last_paragraph = run.output.rstrip().rpartition("\n\n")
    return run.outcome is not Outcome.SUCCESS or bool(re.search("[?\uff1f]", last_paragraph))


def _normalize(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text).replace("\u2019", "'").casefold()
    return " ".join(plain.split()).strip(" .,!…。¡")
