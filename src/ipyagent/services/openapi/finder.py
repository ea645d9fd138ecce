"""Looking what a service can do, for the person who waits at a cell."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard, TypeVar

from ipyagent.errors import AgentError, ConfigError
from ipyagent.kernel.engine_thread import EngineTask, EngineThread
from ipyagent.services.addresses import Guard, RefusedAddressError, Resolve, is_public
from ipyagent.services.openapi import calls, discovery, documents, urls
from ipyagent.services.openapi.operations import Operation
from ipyagent.services.openapi.registry import Service

T = TypeVar("T")

log = logging.getLogger("ipyagent")


class Looked(NamedTuple):
    """A service with what was found out about it; `found`: whether there was a description."""

    service: Service
    found: bool
    lines: tuple[str, ...]
    """What to tell of it."""


class Finder:
    """Finds the operations of services."""

    def __init__(self, environ: Mapping[str, str], resolve: Resolve) -> None:
        self._environ, self._resolve = environ, resolve

    def look(self, service: Service) -> Looked:
        """What the service's description says now; raises ConfigError where it may not be asked."""
        notes: list[str] = []
        try:
            service, notes = self._pinned(service)
            found = self._read(service)
        except RefusedAddressError as error:
            raise ConfigError(f"{service.name}: {error}") from None
        except AgentError as error:
            log.warning("%s: %s", service.name, error)
            return Looked(service, found=False, lines=(f"{service.name}: {error}", *notes))
        update = {"base": found.base, "operations": found.operations}
        title = f" ({found.title})" if found.title else ""
        lines = [
            f"{service.name}{title}: {count(found.operations)} at {urls.shown(found.base)}",
            *notes,
        ]
        lines += [f"{service.name}: {each}" for each in found.notices]
        return Looked(service.model_copy(update=update), found=True, lines=tuple(lines))

    def _pinned(self, service: Service) -> tuple[Service, list[str]]:
        """The service with the private addresses that it may be at: those of its registration."""
        import httpx

        if service.known is not None:
            return service, []
        known: dict[str, str] = {}
        for url in filter(_is_url, (service.url, service.document)):
            _, host, port = urls.origin(httpx.URL(url))
            found = _waited(partial(Guard(resolve=self._resolve).resolved, host, port))
            known |= {str(each): host for each in found if not is_public(each)}
        notes = [
            f"{host} is {'' if host == address else f'at {address}, '}not on the open Internet; "
            "that is allowed for this service alone."
            for address, host in known.items()
        ]
        return service.model_copy(update={"known": tuple(known)}), notes

    def _read(self, service: Service) -> discovery.Discovered:
        try:
            return self._discovered(service)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise documents.unreadable(error) from None

    def _discovered(self, service: Service) -> discovery.Discovered:
        import httpx

        base = httpx.URL(service.base) if service.moved and service.base else None
        if base and service.document and not _is_url(service.document):
            return discovery.from_file(Path(service.document), base)
        try:
            headers = calls.headers_of(service, self._environ)
        except AgentError:  # many descriptions are open to all
            headers = {}
        search = partial(
            discovery.discover,
            httpx.URL(service.url),
            calls.guard_of(service, self._resolve),
            document=httpx.URL(service.document) if service.document else None,
            base=base,
            headers=headers,
        )
        return _waited(search)


def count(operations: Sequence[Operation]) -> str:
    """How many operations these are: 1 operation, 2 operations."""
    return f"{len(operations) or 'no'} operation{'' if len(operations) == 1 else 's'}"


def _is_url(text: str | None) -> TypeGuard[str]:
    return text is not None and "://" in text


def _waited(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Wait for what runs in the engine's loop: the loop of this thread is busy with the cell."""
    task: EngineTask[T] = EngineTask(EngineThread.current())
    task.start(make)
    try:
        return task.done.result()
    except BaseException:
        task.cancel()
        raise
