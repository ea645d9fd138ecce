from __future__ import annotations

from collections.abc import Callable

import pytest

from ipyagent.config import RetryConfig
from ipyagent.errors import (
    ContextOverflowError,
    ModelRefusedError,
    ModelUnavailableError,
    RetryExhaustedError,
)
from ipyagent.llm.client import JITTER, delay, retrying

QUICK = RetryConfig(initial_delay=0.0)


@pytest.mark.spec("M01", "A08")
def test_delays_double_up_to_the_maximum() -> None:
    delays = [delay(n, RetryConfig(), rand=lambda: 0.0) for n in range(8)]
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60]


def test_jitter_adds_a_little_and_never_passes_the_maximum() -> None:
    assert delay(0, RetryConfig(), rand=lambda: 1.0) == pytest.approx(1 + JITTER)
    assert delay(9, RetryConfig(), rand=lambda: 1.0) == delay(100_000, RetryConfig()) == 60
    assert len({delay(0, RetryConfig()) for _ in range(5)}) > 1


@pytest.mark.spec("M01")
def test_what_the_service_asks_for_is_honoured_up_to_the_maximum() -> None:
    assert delay(0, RetryConfig(), retry_after=7) == 7
    assert delay(5, RetryConfig(), retry_after=7, rand=lambda: 0.0) == 32
    assert delay(0, RetryConfig(), retry_after=1e9) == 60


class Flaky:
    """Fails with these errors, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.asked = 0
        self.waits: list[tuple[int, float, str]] = []

    async def answer(self) -> str:
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        return "Here."

    def announce(self, attempt: int, seconds: float, error: ModelUnavailableError) -> None:
        self.waits.append((attempt, seconds, str(error)))

    async def ask(self, config: RetryConfig) -> str:
        answer: str = await retrying(config, self.announce)(self.answer)
        return answer


@pytest.mark.spec("A08", "M01", "N26")
async def test_each_wait_is_announced_before_it_begins() -> None:
    flaky = Flaky(ModelUnavailableError("One."), ModelUnavailableError("Two."))
    assert await flaky.ask(QUICK) == "Here."
    assert flaky.waits == [(1, 0.0, "One."), (2, 0.0, "Two.")]


@pytest.mark.spec("A08", "M01", "N26")
@pytest.mark.parametrize("retries", [0, 1, 3])
async def test_after_the_last_attempt_it_says_how_often_it_was_tried(retries: int) -> None:
    flaky = Flaky(*[ModelUnavailableError("Down.", retry_after=0.0) for _ in range(9)])
    with pytest.raises(RetryExhaustedError, match=r"^Down\. It was tried") as caught:
        await flaky.ask(QUICK.model_copy(update={"max_retries": retries}))
    assert caught.value.attempts == flaky.asked == retries + 1
    assert str(caught.value.last) == "Down."
    assert len(flaky.waits) == retries


@pytest.mark.spec("D17", "N26")
@pytest.mark.parametrize(
    "make", [ModelRefusedError, ContextOverflowError, ValueError, TimeoutError, OSError]
)
async def test_only_what_is_transient_is_tried_again(make: Callable[[str], Exception]) -> None:
    flaky = Flaky(make("Final."))
    with pytest.raises(Exception, match="Final") as caught:
        await flaky.ask(QUICK)
    assert type(caught.value) is make
    assert (flaky.asked, flaky.waits) == (1, [])
