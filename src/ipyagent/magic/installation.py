"""Explain why ipyagent's own modules cannot be imported, and what to install."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from ipyagent import descriptors
from ipyagent.errors import InstallationError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_RESTART = "and restart the kernel"


def import_or_explain(name: str) -> ModuleType:
    """Import one of ipyagent's modules; raises InstallationError naming the missing package."""
    try:
        return import_module(name)
    except Exception as error:
        raise InstallationError(explain(error)) from None


def explain(error: BaseException) -> str:
    """Explain why an import failed: unfit packages, their versions, and what to do."""
    summary = f"ipyagent cannot be used: {type(error).__name__}: {' '.join(str(error).split())}."
    if descriptors.has_none_left(error):
        return f"{summary} {descriptors.advice()} If that does not help, restart the kernel."
    try:
        return _with_packages(error, summary)
    except (OSError, ImportError):  # the packages' own descriptions cannot be read
        return f"{summary} Run `%pip install --upgrade ipyagent` {_RESTART}."


def _with_packages(error: BaseException, summary: str) -> str:
    wrong = list(_unmet_requirements())
    if wrong:
        facts = "; ".join(f"{_version(each.name)}, needed is {_plain(each)}" for each in wrong)
        install = " ".join(f'"{_plain(each)}"' for each in wrong)
        return f"{summary} {facts}. Run `%pip install --upgrade {install}` {_RESTART}."
    if package := _at_fault(error):
        way = f"Run `%pip install --upgrade {package} ipyagent` {_RESTART}"
        return f"{summary} {_version(package)}. {way}."
    return f"{summary} Run `%pip install --upgrade ipyagent` {_RESTART}."


def _unmet_requirements() -> Iterator[Requirement]:
    """Yield ipyagent's own requirements, without extras, that this environment does not meet."""
    from importlib import metadata  # all goes well, mostly

    from packaging.requirements import InvalidRequirement, Requirement

    try:
        lines = metadata.requires("ipyagent") or []
    except metadata.PackageNotFoundError:
        return
    for line in lines:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            if not requirement.specifier.contains(
                metadata.version(requirement.name), prereleases=True
            ):
                yield requirement
        except metadata.PackageNotFoundError:
            yield requirement


def _at_fault(error: BaseException) -> str | None:
    """Return the distribution that could not be imported, or in which the import failed."""
    from importlib import metadata

    names = [name] if (name := getattr(error, "name", None)) else []
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    names += [_package(file) for file in reversed(files)]
    distributions = metadata.packages_distributions()
    for name in names:
        top = name.partition(".")[0]
        if top != "ipyagent" and top in distributions:
            return distributions[top][0]
    return None


def _package(file: str) -> str:
    parts = Path(file).parts
    return Path(parts[parts.index("site-packages") + 1]).stem if "site-packages" in parts else ""


def _version(name: str) -> str:
    from importlib import metadata

    try:
        return f"{name} {metadata.version(name)} is installed"
    except metadata.PackageNotFoundError:
        return f"{name} is not installed"


def _plain(requirement: Requirement) -> str:
    return f"{requirement.name}{requirement.specifier}"
