"""Print pip constraints that pin each dependency to the oldest version that pyproject.toml allows.

Tools of tests and releases stay free: they are not what a user installs.
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

TOOLS = ("dist", "test")
PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


def read_requirements() -> Iterator[Requirement]:
    """Yield what the package and its extras need, without itself and those tools."""
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    extras = project["optional-dependencies"]
    groups = [project["dependencies"], *(extras[name] for name in extras if name != "test")]
    for requirement in (Requirement(line) for group in groups for line in group):
        if requirement.name != project["name"]:
            yield requirement


def pin_to_floor(requirement: Requirement) -> str:
    """Return the constraint for the oldest version; a requirement without one is an error."""
    floors = [s.version for s in requirement.specifier if s.operator == ">="]
    if len(floors) != 1:
        raise ValueError(f"{requirement} in pyproject.toml names no oldest version: write >=")
    return f"{requirement.name}=={floors[0]}"


if __name__ == "__main__":
    print("\n".join(map(pin_to_floor, read_requirements())))
