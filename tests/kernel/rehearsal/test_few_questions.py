"""What changes nothing is not asked about, whatever objects there are and whatever words."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

from ipyagent.kernel.rehearsal.memory import find_numeric_memory
from rehearsal_trial import rehearse

# The process that runs the tests is what is forked: other tests would leave threads in it.
pytestmark = pytest.mark.alone


class Obliging:
    """Has every attribute that it is asked for."""

    asked: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> int:
        Obliging.asked.append(name)
        return 1


def test_an_object_that_has_every_attribute_does_not_stop_rehearsals(tmp_path: Path) -> None:
    given: dict[str, Any] = {"obliging": Obliging(), "numbers": [1, 2]}
    report = rehearse("sum(numbers)", given, tmp_path)
    assert report["result"]["output"] == "3", report
    assert find_numeric_memory(given.values()) == []
    assert Obliging.asked == []


def test_large_columns_of_numbers_are_found() -> None:
    numbers = pd.Series(np.arange(400_000))
    for value in (numbers, pd.DataFrame({"a": numbers}), np.zeros(400_000)):
        ((start, end),) = find_numeric_memory([value])
        assert end - start >= 400_000 * 8
