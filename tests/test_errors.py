"""The exception tree: what can be caught as what."""

import re

import pytest

from ipyagent import errors
from ipyagent.errors import (
    AgentError,
    AgentNotFoundError,
    ConfigError,
    ContextOverflowError,
    MCPConnectionError,
    MCPError,
    MCPToolCallError,
    ModelRefusedError,
    ModelUnavailableError,
    RetryExhaustedError,
    StepTimeoutError,
)


@pytest.mark.spec("A44", "A50", "A51")
@pytest.mark.parametrize(
    ("error", "bases"),
    [
        (MCPConnectionError("x"), (MCPError, AgentError)),
        (MCPToolCallError("x"), (MCPError, AgentError)),
        (AgentNotFoundError("x"), (ConfigError, AgentError)),
        (ContextOverflowError("x"), (ModelRefusedError, AgentError)),
        (StepTimeoutError(3), (TimeoutError, AgentError)),
        (RetryExhaustedError(2, ModelUnavailableError("x")), (ModelUnavailableError, AgentError)),
    ],
)
def test_an_error_is_caught_by_those_above_it(error: Exception, bases: tuple[type, ...]) -> None:
    for base in bases:
        with pytest.raises(base):
            raise error


@pytest.mark.spec("A51")
def test_errors_carry_what_callers_need() -> None:
    assert StepTimeoutError(2.5).seconds == 2.5
    last = ModelUnavailableError("overloaded", retry_after=7)
    exhausted = RetryExhaustedError(3, last)
    assert (exhausted.attempts, exhausted.last, exhausted.retry_after) == (3, last, 7)
    assert "overloaded" in str(exhausted)
    assert "3 times" in str(exhausted)


def test_the_tree_at_the_top_of_the_file_is_the_tree() -> None:
    drawn = set(re.findall(r"\b(\w+Error)\b", errors.__doc__ or ""))
    there = {n for n, e in vars(errors).items() if isinstance(e, type) and n.endswith("Error")}
    assert drawn - {"TimeoutError"} == there


def test_ipython_shows_one_line_and_no_traceback() -> None:
    for error in vars(errors).values():
        if isinstance(error, type) and issubclass(error, AgentError):
            assert error._render_traceback_(AgentError("why"))[-1].endswith(": why")
