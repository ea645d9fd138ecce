"""Look up a service's operations for a user who waits at a cell."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard, TypeVar

from ipyagent.errors import AgentError, ConfigError
from ipyagent.kernel.engine_thread import EngineTask, EngineThread
from ipyagent.phrases import plural
from ipyagent.services.openapi import calls, discovery, documents, urls
from ipyagent.services.openapi.operations import Operation
from ipyagent.services.openapi.registry import Service
from ipyagent.services.openapi.urls import AddressGuard, RefusedAddressError, Resolve, is_public

T = TypeVar("T")

log = logging.getLogger("ipyagent")


class Lookup(NamedTuple):
    """A service after a look-up."""

    service: Service
    has_description: bool
    lines: tuple[str, ...]
    """Lines to show about it."""


class OperationFinder:
    """Finds the operations of services."""

    def __init__(self, environ: Mapping[str, str], resolve: Resolve) -> None:
        self._environ, self._resolve = environ, resolve

    def look_up(self, service: Service) -> Lookup:
        """Look up the service's description; raises ConfigError if its address is not allowed."""
        notes: list[str] = []
        try:
            service, notes = self._pin_addresses(service)
            content = self._find_description(service)
        except RefusedAddressError as error:
            raise ConfigError(f"{service.name}: {error}") from None
        except AgentError as error:
            log.warning("%s: %s", service.name, error)
            return Lookup(
                service, has_description=False, lines=(f"{service.name}: {error}", *notes)
            )
        update = {"base": content.base, "operations": content.operations}
        title = f" ({content.title})" if content.title else ""
        lines = [
            f"{service.name}{title}: {count_operations(content.operations)} at "
            f"{urls.format_url(content.base)}",
            *notes,
        ]
        lines += [f"{service.name}: {each}" for each in content.notices]
        return Lookup(service.model_copy(update=update), has_description=True, lines=tuple(lines))

    def _pin_addresses(self, service: Service) -> tuple[Service, list[str]]:
        """Return the service with the private addresses that were registered."""
        import httpx

        if service.known is not None:
            return service, []
        known: dict[str, str] = {}
        for url in filter(_is_url, (service.url, service.document)):
            _, host, port = urls.origin(httpx.URL(url))
            addresses = _wait_for(
                partial(AddressGuard(resolve=self._resolve).resolve_host, host, port)
            )
            known |= {str(each): host for each in addresses if not is_public(each)}
        notes = [
            f"{host} is {'' if host == address else f'at {address}, '}not on the open Internet; "
            "that is allowed for this service alone."
            for address, host in known.items()
        ]
        return service.model_copy(update={"known": tuple(known)}), notes

    def _find_description(self, service: Service) -> discovery.Discovery:
        try:
            return self._discover(service)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise documents.read_error(error) from None

    def _discover(self, service: Service) -> discovery.Discovery:
        import httpx

        base = httpx.URL(service.base) if service.moved and service.base else None
        if base and service.document and not _is_url(service.document):
            return discovery.from_file(Path(service.document), base)
        try:
            headers = calls.build_headers(service, self._environ)
        except AgentError:  # many descriptions need no credentials
            headers = {}
        search = partial(
            discovery.discover,
            httpx.URL(service.url),
            calls.make_guard(service, self._resolve),
            document=httpx.URL(service.document) if service.document else None,
            base=base,
            headers=headers,
        )
        return _wait_for(search)


def count_operations(operations: Sequence[Operation]) -> str:
    """Return "1 operation", "2 operations"."""
    return plural(len(operations), "operation") if operations else "no operations"


def _is_url(text: str | None) -> TypeGuard[str]:
    return text is not None and "://" in text


def _wait_for(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Wait for work in the engine's loop: this thread's loop is busy with the cell."""
    task: EngineTask[T] = EngineTask(EngineThread.current())
    task.start(make)
    try:
        return task.done.result()
    except BaseException:
        task.cancel()
        raise
