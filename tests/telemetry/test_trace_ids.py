"""Trace ids: made here, or given by the caller."""

import re

import pytest

from ipyagent import telemetry
from ipyagent.errors import ConfigError

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.spec("P08")
def test_a_new_trace_id_is_32_hex_digits_and_different_each_time() -> None:
    ids = {telemetry.new_trace_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in ids)


@pytest.mark.spec("P08")
@pytest.mark.parametrize("given", ["x", "a" * 64, "4bf92f3577b34da6a3ce929d0e0e4736", PARENT])
def test_a_given_trace_id_is_unchanged(given: str) -> None:
    assert telemetry.check_trace_id(given) == given


@pytest.mark.parametrize(
    "given", ["", "a" * 65, "a b", "a\r\nX-Admin: 1", "a\n", "<b>", "über", 'a"b', "١"]
)
def test_characters_that_a_header_cannot_hold_are_refused(given: str) -> None:
    with pytest.raises(ConfigError, match="is not a trace id; give 1 to 64 letters"):
        telemetry.check_trace_id(given)
