"""The base class of the settings' sections, and field types for special values."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, ConfigDict

from ipyagent.schema import Model


class Section(Model):
    """A section of the settings. Values may be text, as in environment variables."""

    # A value in the wrong place may be a key.
    model_config = ConfigDict(hide_input_in_errors=True)


PARTIAL = {"partial": True}
"""Validation context for a layer of settings, which need not be complete."""


def _split_names(value: object) -> object:
    if not isinstance(value, str):
        return value
    return [name.strip() for name in value.split(",") if name.strip()]


def _expand_user(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:
        raise ValueError("there is no home directory of that user") from None


def _check_address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("this is not an address such as https://example.org/v1")
    if "@" in parts.netloc:
        raise ValueError("an address must not hold a name or password; use a key's variable")
    return url


def _check_variable(name: str) -> str:
    if not (name.isascii() and name.isidentifier()):
        raise ValueError("this is the NAME of an environment variable, not the secret in it")
    return name


def _check_import_paths(paths: tuple[str, ...]) -> tuple[str, ...]:
    for path in paths:
        module, colon, name = path.partition(":")
        if not (colon and all(part.isidentifier() for part in f"{module}.{name}".split("."))):
            raise ValueError("expected import paths such as package.module:function")
    return paths


Names = Annotated[tuple[str, ...], BeforeValidator(_split_names)]
"""Names, as a list or separated by commas."""

ImportPaths = Annotated[Names, AfterValidator(_check_import_paths)]
"""Import paths of functions, such as `package.module:function`."""

UserPath = Annotated[Path, AfterValidator(_expand_user)]
"""A path; `~` is the user's home directory."""

Address = Annotated[str, AfterValidator(_check_address)]
"""The address of a service: http or https, without credentials."""

Variable = Annotated[str, AfterValidator(_check_variable)]
"""The name of an environment variable that holds a secret."""
