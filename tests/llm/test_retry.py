from __future__ import annotations

import pytest

from ipyagent.config import RetryConfig
from ipyagent.llm.retry import JITTER, delay


@pytest.mark.spec("M01", "A08")
def test_delays_double_up_to_the_maximum() -> None:
    delays = [delay(n, RetryConfig(), rand=lambda: 0.0) for n in range(8)]
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60]


def test_jitter_adds_a_little_and_never_passes_the_maximum() -> None:
    assert delay(0, RetryConfig(), rand=lambda: 1.0) == pytest.approx(1 + JITTER)
    assert delay(9, RetryConfig(), rand=lambda: 1.0) == 60
    assert len({delay(0, RetryConfig()) for _ in range(5)}) > 1


def test_what_the_service_asks_for_is_honoured_up_to_the_maximum() -> None:
    assert delay(0, RetryConfig(), retry_after=7) == 7
    assert delay(5, RetryConfig(), retry_after=7, rand=lambda: 0.0) == 32
    assert delay(0, RetryConfig(), retry_after=1e9) == 60


def test_absurd_attempts_do_not_overflow() -> None:
    assert delay(100_000, RetryConfig()) == 60
