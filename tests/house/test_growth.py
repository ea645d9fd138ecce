import pytest

from growth import CONSTANT, LINEAR, growth

pytestmark = pytest.mark.slow


def test_work_is_told_from_work_that_grows_with_the_square() -> None:
    text = "ab" * 2_000_000
    assert growth(lambda size: text[:size].count("a"), 1_000_000) < LINEAR
    assert growth(lambda size: [text[:n].count("a") for n in range(0, size, 20)], 40_000) > LINEAR
    assert growth(lambda _: text.count("a"), 1) < CONSTANT
