from pathlib import Path

import pytest

from planning import PlanLab


@pytest.fixture
def lab(tmp_path: Path) -> PlanLab:
    return PlanLab(tmp_path)
