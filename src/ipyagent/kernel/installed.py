"""The packages for work with data that are installed here, found without importing them."""

from __future__ import annotations

import platform
from functools import cache
from importlib import metadata

PACKAGES = (
    "pandas", "polars", "numpy", "scipy", "scikit-learn", "statsmodels", "matplotlib", "seaborn",
    "plotly", "pyarrow", "duckdb", "openpyxl", "xgboost", "torch",
)  # fmt: skip

EXPECTED = ("pandas", "numpy", "scipy", "scikit-learn", "statsmodels", "matplotlib", "seaborn")
"""Packages that models use without asking; it is worth a few bytes that one is missing."""

ALTERNATIVES = {
    "pandas": ("polars", "pyarrow", "duckdb"),
    "polars": ("pandas",),
    "pyarrow": ("polars", "pandas"),
    "duckdb": ("pandas", "polars"),
    "statsmodels": ("scipy", "scikit-learn", "numpy"),
    "pingouin": ("scipy", "statsmodels"),
    "scipy": ("statsmodels", "numpy"),
    "sklearn": ("statsmodels", "scipy", "numpy"),
    "xgboost": ("scikit-learn",),
    "lightgbm": ("xgboost", "scikit-learn"),
    "catboost": ("xgboost", "scikit-learn"),
    "tensorflow": ("torch", "scikit-learn"),
    "torch": ("scikit-learn",),
    "matplotlib": ("seaborn", "plotly"),
    "seaborn": ("matplotlib", "plotly"),
    "plotly": ("matplotlib", "seaborn"),
    "altair": ("matplotlib", "seaborn", "plotly"),
    "bokeh": ("matplotlib", "plotly"),
    "xlrd": ("openpyxl",),
    "openpyxl": ("xlrd",),
}
"""By module: packages that do similar work."""


@cache
def installed_packages() -> str:
    """Return one line on Python and the packages, the same as long as the kernel lives.

    It is part of the system prompt, which must not change within a session.
    """
    versions = {name: version for name in PACKAGES if (version := _version(name))}
    python = ".".join(platform.python_version_tuple()[:2])
    parts = [f"Python {python}", *(f"{name} {each}" for name, each in versions.items())]
    missing = [name for name in EXPECTED if name not in versions]
    rest = f"; not installed: {', '.join(missing)}" if missing else ""
    return f"Installed: {', '.join(parts)}{rest}."


def installed_alternatives(module: str) -> list[str]:
    """Return the packages installed now that do similar work as a module that is missing."""
    return [name for name in ALTERNATIVES.get(module, ()) if _version(name)]


def _version(name: str) -> str:
    """Return the first two parts of a package's version; "" if it is not installed."""
    try:
        version = metadata.version(name) or ""
    except (metadata.PackageNotFoundError, OSError, ValueError):  # or its record is damaged
        return ""
    return ".".join(version.split(".")[:2])
