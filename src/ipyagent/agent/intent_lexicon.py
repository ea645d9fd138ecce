"""Words by which a reply announces, explains or asks, in several languages.

Each line is one language; spaces separate words, and `_` stands for a space within one. Languages
written without spaces match anywhere.
"""

from __future__ import annotations

import re

INTENT = """
will i'll going_to let_me let's
calling running first now_i
voy_a vamos_a llamaré usaré ejecutaré ahora
werde ich_rufe rufe_ich
je_vais nous_allons j'appelle
allora chiamo
jeg_kaller
将 我会 我来 接下来 これから
"""
"""Words that announce an action."""

EXPLANATION = """
explain explaining show showing describe describing summarize summarise walk
explicar explicarte explicarle mostrar mostrarte describir
erkläre erklären zeige zeigen beschreibe beschreiben
expliquer montrer décrire
解释 说明 介绍 説明
"""
"""Words that announce an explanation rather than an action."""

NEGATION = """
not no never without cannot don't won't can't didn't isn't if unless
nunca sin si
nicht kein keine ohne wenn falls
ne pas sans jamais
不 没 未 无 如果
"""
"""Words that negate or weaken."""

USER_ACTION = """
you your open click install
tu tus usted su abre abra haz instala
du dein deine sie ihr ihre öffne öffnen klicke installiere
vous votre vos ton ouvrez cliquez installez
你 您 打开 点击 安装
"""
"""Words for steps that the user takes."""

OTHER_DIALOG = """
terminal prompt dialog installer asks asked
pide fragt demande
终端 提示
"""
"""Words for a dialog elsewhere, such as a terminal."""

REPLY = """
reply respond answer say type write send
responde responda escribe escriba contesta
antworte antworten schreib schreibe tippe tippen
réponds répondez écrivez tapez dites
回复 输入 回答
"""

YES = """
yes ok okay go confirm proceed
sí si confirmo dale adelante
ja bestätigt bestätigen bestätige
oui je_confirme confirme confirmer
是 确认 确定 同意 好
"""

PERMISSION_REQUEST = """
confirm_to confirm_and confirm_so confirm_before
shall_i_proceed shall_i_go_ahead shall_i_continue shall_i_start shall_i_begin
should_i_proceed should_i_go_ahead should_i_continue should_i_start should_i_begin
may_i_proceed may_i_go_ahead may_i_continue may_i_start may_i_begin
confirma_para confirma_y confirme_para confirme_y procedo? continúo? sigo_adelante? empiezo?
bestätige_damit bestätigen_sie bestätige_und soll_ich_fortfahren soll_ich_beginnen soll_ich_anfangen
confirmez_pour confirmez_et dois-je_continuer dois-je_procéder dois-je_commencer
请确认后 确认后我 是否继续 是否执行 是否开始 要我继续 要我执行 要我开始
"""

START_STEMS = """
run execut proceed start begin continue go_ahead apply delete
ejecut proced empez empiec contin borr
ausf ausz fortf beginn weiter lösch
exéc lanc commenc procéd
执行 继续 开始 运行 删除 进行
"""
"""Beginnings of words that say what happens after a yes."""

PLAN = """
plan plano план aktionsplan arbeitsplan ausführungsplan
计划 计划书 执行计划 建议计划 计划如下 计画 計劃 計画 実行計画
"""

STEPS = """
steps pasos schritte étapes 步骤 手順 ステップ
"""

PLAN_MODIFIERS = """
here here's is this the a my our proposed suggested execution of action work
aquí está este es el un mi nuestro propuesto de acción ejecución trabajo
hier ist das der ein mein unser vorgeschlagener
voici le mon notre proposé d'action
"""
"""Words that a heading may have beside "plan"."""


def any_word_pattern(block: str) -> str:
    """Return a pattern that finds any of the words."""
    phrases = sorted((each.replace("_", " ") for each in block.split()), key=len, reverse=True)
    spaced = [re.escape(each) for each in phrases if each < "\u3000"]
    others = [re.escape(each) for each in phrases if each >= "\u3000"]
    return "|".join(filter(None, (rf"(?<!\w)(?:{'|'.join(spaced)})(?!\w)", *others)))


def any_prefix_pattern(block: str) -> str:
    """Return a pattern that finds any word with one of the beginnings."""
    return "|".join(re.escape(each.replace("_", " ")) for each in block.split())


def phrase_set(block: str) -> frozenset[str]:
    """Return the words themselves."""
    return frozenset(each.replace("_", " ") for each in block.split())
