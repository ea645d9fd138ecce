"""Yes and no in words: a prompt that is such a word and nothing else decides on a waiting plan."""

from __future__ import annotations

import unicodedata

from ipyagent.agent.lexicon import among
from ipyagent.schema import Decision

YES = among("""
yes y ok okay confirm approve approved proceed go_ahead run_it
sí si confirmo confirmar apruebo aprobar dale adelante de_acuerdo
ja bestätigen bestätigt ich_bestätige genehmigt einverstanden
oui d'accord confirme je_confirme confirmer approuver
是 是的 好 好的 确认 批准 同意 可以
""")

NO = among("""
no n cancel deny stop abort
cancela cancelar cancelo detener rechazar rechazo
nein abbrechen ablehnen
non annuler annule refuser
不 不要 否 取消 拒绝 不同意
""")


def decision(text: str) -> Decision | None:
    """What a prompt decides; None for all that says more, or something else."""
    plain = unicodedata.normalize("NFKC", text).replace("\u2019", "'").casefold()
    said = " ".join(plain.split()).strip(" .,!…。¡")
    if said in YES:
        return Decision.APPROVED
    return Decision.DENIED if said in NO else None
