"""Parse yes and no: a prompt that is one such word decides on a waiting plan.

In English, Spanish and Chinese: in other languages `%agent approve` and the buttons do it. Some
words can only refer to something that waits; others, as *yes*, may also answer a question of the
model's, and *go* is a prompt if nothing waits.
"""

from __future__ import annotations

import unicodedata

from ipyagent.schema import Decision

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


def is_plan_word(text: str) -> bool:
    """Return whether a prompt can only refer to a waiting plan."""
    word = _normalize(text)
    return word in _CONFIRM or word in _CANCEL


def is_go_word(text: str) -> bool:
    """Return whether a prompt has a meaning of its own when nothing waits."""
    return _normalize(text) in _GO


def _normalize(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text).replace("\u2019", "'").casefold()
    return " ".join(plain.split()).strip(" .,!…。¡")
