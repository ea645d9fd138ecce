"""`Any` switches the type checker off: what is used of a foreign object is named by a Protocol."""

import io
import tokenize

from repository import read_sources

MOST = 287
"""What is left: libraries without types (LiteLLM, numpy, pandas), pydantic's own signatures, and
values that users read, where `object` would burden their code. Lower it when some of them go."""


def count_any(text: str) -> int:
    """Return how often code uses the name `Any`; imports do not count."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(
        token.type == tokenize.NAME
        and token.string == "Any"
        and not token.line.startswith("from typing import")
        for token in tokens
    )


def test_no_more_of_the_code_goes_unchecked_than_before() -> None:
    used = sum(map(count_any, read_sources().values()))
    assert used <= MOST, (
        f"`Any` is used {used} times, {used - MOST} more than before: write `object` where nothing "
        "is known of a value, `JsonDict` for JSON, or a Protocol with the members that are used"
    )


def test_uses_are_counted_and_imports_are_not() -> None:
    assert count_any("from typing import Any\nx: Any = 1\ny: dict[str, Any] = {}\n") == 2
