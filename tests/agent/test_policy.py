"""Which calls run, which are asked about, and which never run: every case against a plain table."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import YES, Lab, call
from ipyagent.agent.policy import Effect, FolderPermissions, Grants, Policy, Verdict
from ipyagent.config import ConfirmMode, Rule
from ipyagent.schema import (
    DecidedBy,
    Question,
    Scope,
    ToolStatus,
)
from ipyagent.tools.base import Tool, tool

MODES: tuple[ConfirmMode, ...] = ("confirm-sensitive", "confirm-all", "yolo")


def made(**traits: Any) -> Tool:
    @tool(name="act", where="thread", **traits)
    def act(path: str = "a.txt") -> str:
        """Do it."""
        return f"done with {path}"

    return act


CASES = itertools.product(
    MODES,
    (False, True),  # sensitive
    (False, True),  # reaches out
    (None, "it runs later"),  # always asks
    ((), ("a.csv",)),  # what was read
    itertools.chain.from_iterable(itertools.combinations(Effect, n) for n in range(4)),
    (None, frozenset(), frozenset({"a.csv"})),  # allowed for the session, knowing this
    (False, True),  # allowed in the folder
)


def expected(
    mode: str,
    sensitive: bool,
    reaches: bool,
    always: str | None,
    read: tuple[str, ...],
    rules: tuple[Effect, ...],
    known: frozenset[str] | None,
    folder: bool,
) -> tuple[Effect, DecidedBy, bool]:
    """The first line that applies: what becomes of the call, who says so, may it be lasting."""
    tainted = reaches and bool(set(read) - (known or set()))
    session = known is not None and not tainted
    asks, allows = Effect.ASK, Effect.ALLOW
    table: list[tuple[bool, tuple[Effect, DecidedBy, bool]]] = [
        (Effect.DENY in rules, (Effect.DENY, DecidedBy.POLICY, False)),
        (always is not None, (asks, DecidedBy.POLICY, False)),
        (Effect.ASK in rules, (asks, DecidedBy.POLICY, False)),
        (mode == "yolo", (allows, DecidedBy.POLICY, False)),
        (mode == "confirm-all" and session, (allows, DecidedBy.SESSION, False)),
        (mode == "confirm-all", (asks, DecidedBy.POLICY, True)),
        (Effect.ALLOW in rules and not tainted, (allows, DecidedBy.POLICY, False)),
        (not sensitive and not tainted, (allows, DecidedBy.POLICY, False)),
        (session, (allows, DecidedBy.SESSION, False)),
        (folder and not tainted, (allows, DecidedBy.FOLDER, False)),
        (True, (asks, DecidedBy.POLICY, True)),
    ]
    return next(outcome for applies, outcome in table if applies)


def granted(known: frozenset[str] | None) -> Grants:
    """What a session remembers: the tool, allowed while these words were known."""
    grants = Grants()
    if known is not None:
        grants.allow("act")
        grants.accept_sources("act", known)
    return grants


@pytest.mark.spec("A12", "P03")
def test_the_strictest_reason_wins_in_every_combination(tmp_path: Path) -> None:
    cases = [*CASES]
    assert len(cases) == 3 * 2 * 2 * 2 * 2 * 8 * 3 * 2
    for case in cases:
        mode, sensitive, reaches, always, read, effects, known, folder = case
        act = made(
            sensitive=sensitive,
            reaches_out=reaches,
            always_asks=lambda path="", why=always: why,
        )
        standing = FolderPermissions(tmp_path / "yes" if folder else tmp_path / "no")
        if folder and not standing.grant_for(act):
            standing.grant(act)
        policy = Policy(
            mode,
            granted(known),
            dict.fromkeys(read).keys(),
            rules=[Rule(effect=effect.value, tool=("act",)) for effect in effects],
            folder_permissions=standing,
            root=tmp_path,
        )
        verdict = policy.evaluate(act, {"path": "a.txt"})
        effect, by, lasting = expected(*case)
        assert (verdict.effect, verdict.by, bool(verdict.scopes)) == (effect, by, lasting), case


SCOPES = {
    ("confirm-sensitive", True): (Scope.SESSION, Scope.FOLDER),
    ("confirm-sensitive", False): (Scope.SESSION,),
    ("confirm-all", True): (Scope.SESSION,),
    ("confirm-all", False): (Scope.SESSION,),
}


@pytest.mark.parametrize(("mode", "remembers"), SCOPES)
def test_only_a_permission_that_would_count_is_offered(
    tmp_path: Path, mode: ConfirmMode, remembers: bool
) -> None:
    standing = FolderPermissions(tmp_path) if remembers else None
    policy = Policy(mode, folder_permissions=standing)
    assert policy.evaluate(made(sensitive=True), {}).scopes == SCOPES[mode, remembers]


@pytest.mark.parametrize("scope", Scope)
def test_a_permission_goes_as_far_as_was_said(tmp_path: Path, scope: Scope) -> None:
    act = made(sensitive=True)
    now = Policy(folder_permissions=FolderPermissions(tmp_path))
    now.grant(act, scope)
    later = Policy(folder_permissions=FolderPermissions(tmp_path))
    elsewhere = Policy(folder_permissions=FolderPermissions(tmp_path / "other"))
    effects = [policy.evaluate(act, {}).effect for policy in (now, later, elsewhere)]
    allowed = {Scope.ONCE: 0, Scope.SESSION: 1, Scope.FOLDER: 2}[scope]
    assert effects == [Effect.ALLOW] * allowed + [Effect.ASK] * (3 - allowed)


def test_a_question_is_put_whatever_is_allowed_and_offers_nothing_lasting() -> None:
    ask = made(question=lambda path="": Question(text="Which?"))
    for mode in MODES:
        assert Policy(mode, granted(frozenset())).evaluate(ask, {}) == Verdict(Effect.ASK)
    rules = [Rule(effect="deny", tool=("act",))]
    assert Policy("yolo", rules=rules).evaluate(ask, {}).effect is Effect.DENY


ALLOW = [Rule(effect="allow", tool=("act",))]
REFUSING: list[Callable[[str], Policy]] = [
    lambda mode: Policy(mode, granted(frozenset()), allowed_tools=("read_file",), rules=ALLOW),
    lambda mode: Policy(
        mode,
        granted(frozenset()),
        refusal=lambda name: "the skill tidy does not allow it" if name == "act" else None,
        rules=ALLOW,
    ),
    lambda mode: Policy(
        mode, granted(frozenset()), rules=[*ALLOW, Rule(effect="deny", tool=("a*",))]
    ),
]

WHY = ["agent.allowed_tools", "the skill tidy does not allow it", "a rule: deny a*"]


@pytest.mark.spec("P32", "M24", "A54")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("refusing", "why"), [*zip(REFUSING, WHY, strict=True)])
def test_what_is_refused_is_denied_whatever_was_allowed(
    mode: ConfirmMode, refusing: Callable[[str], Policy], why: str
) -> None:
    act, other = (tool(name=name, where="thread")(lambda: "x") for name in ("act", "read_file"))
    assert Policy("yolo").evaluate(act, {}).effect is Effect.ALLOW
    verdict = refusing(mode).evaluate(act, {})
    assert verdict.effect is Effect.DENY
    assert why in str(verdict.reason)
    assert refusing("yolo").evaluate(other, {}).effect is Effect.ALLOW


@pytest.mark.spec("A54")
@pytest.mark.parametrize("name", [".env", "key.pem", "id_rsa", "x/.ENV"])
def test_no_mode_and_no_permission_lets_a_secret_be_read(tmp_path: Path, name: str) -> None:
    lab = Lab(tmp_path)
    (tmp_path / "x").mkdir()
    (tmp_path / name).write_text("s3cret")
    lab.session.grants.allow("read_file")
    rules = {"rules": [{"effect": "allow", "tool": "read_file", "path": "**"}]}
    for mode in MODES:
        run = lab.run(
            [{"calls": [call("read_file", path=name)]}, "Ok."],
            answer=YES,
            settings={"policy": rules},
            confirm_mode=mode,
        )
        assert run.executions[0].status is not ToolStatus.SUCCESS
        assert "s3cret" not in str(run.to_dict())
