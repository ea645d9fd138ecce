"""What a prompt must be like."""

from collections.abc import Callable

import pytest

from harness import Lab
from ipyagent.agent.validation import VALIDATORS, validate
from ipyagent.errors import AgentError


@pytest.mark.spec("H07", "H24")
@pytest.mark.parametrize("prompt", ["", " ", "\n\t "])
def test_an_empty_prompt_is_refused(prompt: str) -> None:
    with pytest.raises(AgentError, match="empty"):
        validate(prompt)


@pytest.mark.spec("H08", "H24")
def test_ten_thousand_characters_may_be_typed_and_no_more() -> None:
    validate("x" * 10_000)
    validate(f"\n {'x' * 10_000} \n")
    with pytest.raises(AgentError, match=r"10,001 characters; at most 10,000 .* mention it with @"):
        validate("x" * 10_001)


@pytest.mark.spec("H24")
def test_whoever_wants_adds_a_validator() -> None:
    def no_secrets(prompt: str) -> None:
        if "password" in prompt:
            raise ValueError("Leave the password out.")

    mine: list[Callable[[str], object]] = [*VALIDATORS, no_secrets]
    validate("Hello", mine)
    with pytest.raises(AgentError, match="Leave the password out"):
        validate("The password is 1234", mine)


@pytest.mark.spec("H07", "H08", "H26")
@pytest.mark.parametrize("prompt", ["  ", "x" * 10_001])
def test_a_refused_prompt_reaches_no_model_and_the_next_one_works(lab: Lab, prompt: str) -> None:
    with pytest.raises(AgentError):
        lab.run(["Never asked."], prompt)
    assert lab.client is not None
    assert lab.client.requests == []
    assert lab.session.messages == []
    assert lab.run(["Fine."]).output == "Fine."
