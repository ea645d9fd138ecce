"""Yes and no in words: a prompt that is such a word and nothing else decides on a waiting plan.

Each line is one language. Some of the words can only be about something that waits; others, as
*yes*, may as well answer a question of the model's, and *go* is a prompt wherever nothing waits.
"""

from __future__ import annotations

import unicodedata

from ipyagent.agent.lexicon import among
from ipyagent.schema import Decision

CONFIRM = among("""
confirm confirmed approve approved run_it execute
confirmo confirmar confirmado apruebo aprobar aprobado ejecuta ejecutar ejecute ejecútalo
bestätigen bestätigt ich_bestätige genehmigt ausführen
confirme je_confirme confirmer approuver exécute exécuter
确认 批准 同意 执行
""")

GO = among("""
go go_ahead proceed
dale adelante
weiter
""")

YES = among("""
yes y ok okay
sí si de_acuerdo
ja einverstanden
oui d'accord
是 是的 好 好的 可以
""")

CANCEL = among("""
cancel deny stop abort
cancela cancelar cancelo detener detén detente para rechazar rechazo
abbrechen ablehnen stopp
annuler annule refuser arrête arrêter
取消 拒绝 停止
""")

NO = among("""
no n
nein
non
不 不要 否 不同意
""")


def decision(text: str) -> Decision | None:
    """What a prompt decides; None for all that says more, or something else."""
    word = _bare(text)
    if word in CONFIRM or word in YES or word in GO:
        return Decision.APPROVED
    return Decision.DENIED if word in CANCEL or word in NO else None


def needs_plan(text: str) -> bool:
    """Whether a prompt is a word that can only be about a plan that waits."""
    word = _bare(text)
    return word in CONFIRM or word in CANCEL


def tells_to_go_on(text: str) -> bool:
    """Whether a prompt is a word that has a meaning of its own where nothing waits."""
    return _bare(text) in GO


def _bare(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text).replace("\u2019", "'").casefold()
    return " ".join(plain.split()).strip(" .,!…。¡")
