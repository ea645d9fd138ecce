"""The built-in data explorer: deterministic, and answering over the same protocol as a model.

    messages ─ conversation ─┐
                             ├─ client ── lexer ── frame ── intents ── ExplorerReply
    <context> ─── workspace ─┘

Every word of a prompt must be accounted for, or the prompt is declined: a wrong answer is worse
than none. Numbers come from tools' results, never from here.
"""

from ipyagent.explorer.client import ExplorerReply as ExplorerReply, reply as reply
