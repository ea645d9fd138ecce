"""What a prompt must be like."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import Lab
from ipyagent.agent.prompts import (
    GROUP,
    configured_validators,
    installed_validators,
)
from ipyagent.config import trust
from ipyagent.errors import AgentError, ConfigError


@pytest.mark.spec("H07", "H08", "H24", "H26")
@pytest.mark.parametrize(
    ("prompt", "why"),
    [
        ("", "empty"),
        ("\n\t ", "empty"),
        ("x" * 10_001, r"10,001 characters; at most 10,000 .* mention it with @"),
    ],
)
def test_a_refused_prompt_reaches_no_model_and_the_next_one_works(
    lab: Lab, prompt: str, why: str
) -> None:
    with pytest.raises(AgentError, match=why):
        lab.run(["Never asked."], prompt)
    assert lab.client.requests == []
    assert lab.session.conversation.messages == []
    assert lab.run(["Fine."], f"\n {'x' * 10_000} \n").output == "Fine."


def refuse_secrets(prompt: str) -> None:
    if "secret" in prompt:
        raise ValueError("No secrets, please.")


async def wait(prompt: str) -> None:
    raise ValueError(prompt)


def fail(prompt: str) -> None:
    raise KeyError(prompt)


HERE = f"{__name__}:refuse_secrets"


@pytest.mark.spec("H24")
def test_a_session_s_validators_look_at_every_prompt_of_it(lab: Lab) -> None:
    assert lab.session.validators == []
    lab.session.validators.append(refuse_secrets)
    with pytest.raises(AgentError, match="No secrets, please"):
        lab.run(["Never asked."], "The secret is 1234.")
    assert lab.session.runs == []
    assert lab.run(["Fine."]).output == "Fine."


@pytest.mark.spec("H24")
def test_a_setting_names_validators_by_their_import_path(lab: Lab) -> None:
    settings = {"chat": {"validators": [HERE]}}
    with pytest.raises(AgentError, match="No secrets, please"):
        lab.run(["Never asked."], "The secret is 1234.", settings=settings)
    assert lab.run(["Fine."], settings=settings).output == "Fine."


@pytest.mark.spec("H24")
def test_installed_packages_bring_validators_by_an_entry_point(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of two packages with one name, the first on the path is the one that is installed.
    for folder, value in (("first", HERE), ("second", "no_such_package:function")):
        package = tmp_path / folder / "guards-1.0.dist-info"
        package.mkdir(parents=True)
        (package / "METADATA").write_text("Metadata-Version: 2.1\nName: guards\nVersion: 1.0\n")
        (package / "entry_points.txt").write_text(f"[{GROUP}]\nsecrets = {value}\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "first"), str(tmp_path / "second"), *sys.path])
    installed_validators.cache_clear()
    try:
        with pytest.raises(AgentError, match="No secrets, please"):
            lab.run(["Never asked."], "The secret is 1234.")
    finally:
        installed_validators.cache_clear()


@pytest.mark.spec("H24", "H26")
@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("no_such_package.module:function", "No module named 'no_such_package'"),
        (f"{__name__}:no_such_function", "no attribute 'no_such_function'"),
        (f"{__name__}:HERE", "no function but an object of type str"),
        (f"{__name__}:wait", "is async"),
        (f"{__name__}:fail", r"failed \(KeyError"),
    ],
)
def test_a_validator_that_cannot_do_its_work_lets_nothing_through(
    lab: Lab, path: str, problem: str
) -> None:
    with pytest.raises(AgentError, match=problem) as refused:
        lab.run(["Never asked."], settings={"chat": {"validators": path}})
    assert str(refused.value).startswith("The prompt was not sent, because the validator")
    assert "\n" not in str(refused.value)
    assert lab.client.requests == []


@pytest.mark.parametrize("path", ["module", "module:", ":f", "a b:c", "os.system('x'):f"])
def test_what_is_no_import_path_is_no_setting(lab: Lab, path: str) -> None:
    with pytest.raises(ConfigError, match=r"chat\.validators.*package\.module:function"):
        lab.run(["Never."], settings={"chat": {"validators": [path]}})


@pytest.fixture
def brought_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a module in it that can be imported, as in a notebook's kernel."""
    (tmp_path / "brought_along.py").write_text("import sys\nsys.ran = True\ncheck = print\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("brought_along", None)
    vars(sys).pop("ran", None)


@pytest.mark.spec("H24")
def test_a_folder_does_not_bring_a_validator_s_code_before_it_is_trusted(
    brought_module: Path,
) -> None:
    paths = ["brought_along:check"]
    with pytest.raises(ConfigError, match=r"do not trust.*import brought_along"):
        configured_validators(paths, brought_module)
    assert not hasattr(sys, "ran")
    (brought_module / "ipyagent.yaml").write_text("agent: {max_steps: 5}")
    trust(brought_module)
    assert configured_validators(paths, brought_module) == (print,)
