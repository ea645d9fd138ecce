"""Parse yes and no: a prompt that is one such word decides on a waiting plan.

Each line is one language. Some words can only refer to something that waits; others, as *yes*, may
also answer a question of the model's, and *go* is a prompt if nothing waits.
"""

from __future__ import annotations

import unicodedata

from ipyagent.agent.intent_lexicon import phrase_set
from ipyagent.schema import Decision

CONFIRM = phrase_set("""
confirm confirmed approve approved run_it execute
confirmo confirmar confirmado apruebo aprobar aprobado ejecuta ejecutar ejecute ejecútalo
bestätigen bestätigt ich_bestätige genehmigt ausführen
confirme je_confirme confirmer approuver exécute exécuter
确认 批准 同意 执行
""")

GO = phrase_set("""
go go_ahead proceed
dale adelante
weiter
""")

YES = phrase_set("""
yes y ok okay
sí si de_acuerdo
ja einverstanden
oui d'accord
是 是的 好 好的 可以
""")

CANCEL = phrase_set("""
cancel deny stop abort
cancela cancelar cancelo detener detén detente para rechazar rechazo
abbrechen ablehnen stopp
annuler annule refuser arrête arrêter
取消 拒绝 停止
""")

NO = phrase_set("""
no n
nein
non
不 不要 否 不同意
""")


def parse_yes_no(text: str) -> Decision | None:
    """Return the decision of a prompt; None if it says anything else."""
    word = _normalize(text)
    if word in CONFIRM or word in YES or word in GO:
        return Decision.APPROVED
    return Decision.DENIED if word in CANCEL or word in NO else None


def is_plan_word(text: str) -> bool:
    """Return whether a prompt can only refer to a waiting plan."""
    word = _normalize(text)
    return word in CONFIRM or word in CANCEL


def is_go_word(text: str) -> bool:
    """Return whether a prompt has a meaning of its own when nothing waits."""
    return _normalize(text) in GO


def _normalize(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text).replace("\u2019", "'").casefold()
    return " ".join(plain.split()).strip(" .,!…。¡")
