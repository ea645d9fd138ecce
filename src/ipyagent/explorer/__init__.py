"""The model without a model: a deterministic data explorer that answers like one.

    messages ─ conversation ─┐
                             ├─ rules ── lexer ── grammar ── families ── ExplorerReply
    <context> ─── workspace ─┘

Every word of a prompt must be accounted for, or the prompt is declined: a wrong answer is worse
than none. Numbers come from what the tools returned, never from here.
"""

from ipyagent.explorer.reply import ExplorerReply, reply

__all__ = ["ExplorerReply", "reply"]
