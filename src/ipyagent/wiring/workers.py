"""Workers of the user's own engines, Dask's or an executor's, for `ipyagent.map`.

A worker sends one request, or calls one tool, and hands back what came. Limits, retries, budgets,
validation and storage stay in the process that asked. So the limits hold over all workers, and when
one dies, only what was under way is sent again.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, wraps
from inspect import isawaitable
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import SecretStr

from ipyagent import errors
from ipyagent.config import LLMConfig
from ipyagent.json_types import JsonDict
from ipyagent.kernel.threads import EngineThread
from ipyagent.llm.client import Client, ModelRequest, WrappedClient, maker_of
from ipyagent.llm.service_client import ServiceClient
from ipyagent.plaintext import first_line
from ipyagent.schema import StreamChunk
from ipyagent.tools.base import Tool, Where
from ipyagent.wiring.environment import client_for

T = TypeVar("T")

_LOST = ("KilledWorker", "EngineError")
"""Errors of Dask and ipyparallel for a worker that died; another one can be asked."""
_BROKEN = (
    "the executor is broken, because a process of it died: make a new one and call map again, "
    "which asks only what is missing (a script that starts processes needs "
    "`if __name__ == '__main__':`)"
)


@dataclass(frozen=True)
class RemoteModel:
    """A model as it travels to workers, which make a client of their own from it."""

    name: str
    maker: str
    settings: str
    """The settings `llm` as JSON, without a key."""
    root: str
    variable: str = ""
    """The variable that holds the key; "" if none is needed."""
    key: str | None = field(default=None, repr=False)
    """The key, if the user wants it to be sent."""

    @classmethod
    def of(cls, client: Client, config: LLMConfig, root: Path, send_key: bool) -> RemoteModel:
        """Return the model of a client that was made from settings."""
        model = cls(client.model, maker_of(client), config.model_dump_json(), str(root))
        where = client.destination if isinstance(client, ServiceClient) else None
        if where is None or where.key_from is None:
            return model
        variable = next(iter(where.keys), where.key_from)
        return replace(model, variable=variable, key=where.key if send_key else None)

    def make_client(self) -> Client:
        """Return a client that asks as the process of the user does; raises ConfigError."""
        config, root = LLMConfig.model_validate_json(self.settings), Path(self.root)
        client = client_for(self.name, config, root)
        if self.variable and not _has_key(client):
            if self.key is None:
                raise errors.ConfigError(
                    f"the workers have no key for {self.name}: set {self.variable} where they run, "
                    "or pass send_key=True to send them yours"
                )
            config = config.model_copy(update={"api_key": SecretStr(self.key)})
            client = client_for(self.name, config, root)
        if maker_of(client) != self.maker:
            raise errors.ConfigError(
                f"the workers would ask {maker_of(client)}, and not {self.maker} as this process "
                "does: set llm.api_base, so that both know the address"
            )
        return client


def _has_key(client: Client) -> bool:
    try:
        return isinstance(client, ServiceClient) and client.destination.key_from is not None
    except errors.ModelRefusedError:
        return False


_client_of = lru_cache(maxsize=8)(RemoteModel.make_client)


class RemoteClient(WrappedClient):
    """A client whose requests are sent by workers; they call functions of tools, too.

    `config` are the settings that the other client was made from; None if the user made it, and it
    travels itself.
    """

    def __init__(
        self, on: object, client: Client, config: LLMConfig | None, root: Path, send_key: bool
    ) -> None:
        super().__init__(client)
        self._submit = _find_submit(on)
        self._travelling: RemoteModel | Client = client
        if config is not None and not isinstance(on, ThreadPoolExecutor):
            self._travelling = RemoteModel.of(client, config, root, send_key)
        self._functions: dict[str, Callable[..., object]] = {}

    async def check(self) -> None:
        """Try what has to travel on a worker; raises ConfigError with what to do."""
        for name, function in self._functions.items():
            try:
                await self._run(_receive, function)
            except errors.ModelError:
                raise
            except Exception as error:
                raise errors.ConfigError(
                    f"the tool {name} cannot be sent to the workers ({_describe(error)}): give a "
                    "function of a module that they can import"
                ) from None
        try:
            await self._run(_prepare, self._travelling)
        except (errors.ConfigError, errors.ModelError):
            raise
        except Exception as error:
            raise errors.ConfigError(
                f"the workers cannot send requests: {_describe(error)}. They need this version of "
                "ipyagent, and a client of your own must be such that it can be pickled"
            ) from None

    def carry(self, tool: Tool) -> Tool:
        """Return the same tool, whose function is called on a worker."""
        self._functions[tool.name] = function = tool.function

        @wraps(function)
        async def call(**arguments: object) -> object:
            return await self._run(_call, function, arguments)

        return replace(tool, function=call, where=Where.LOOP)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        """Yield the reply to `request`, once a worker has all of it."""
        plain = replace(request, facts=None)
        try:
            chunks, failure = await self._run(_send, self._travelling, plain)
        except errors.ModelError:
            raise
        except Exception as error:
            problem = f"a worker failed: {_describe(error)}"
            is_lost = getattr(error, "ename", type(error).__name__) in _LOST
            raise (errors.ModelUnavailableError if is_lost else errors.ModelError)(
                problem
            ) from None
        for chunk in chunks:
            yield chunk
        if failure is not None:
            raise failure

    async def _run(self, function: Callable[..., T], *arguments: object) -> T:
        """Return what the function returns on a worker; ends at once when it is cancelled."""
        try:
            future = self._submit(function, *arguments)
            return cast("T", await asyncio.wrap_future(future))
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise
            raise errors.ModelError("the engine was shut down") from None
        except BrokenExecutor:
            raise errors.ModelError(_BROKEN) from None


def dashboard_of(on: object) -> str:
    """Return the address of the dashboard of a Dask client; "" if there is none."""
    with suppress(KeyError):
        return str(getattr(on, "dashboard_link", None) or "")
    return ""


def _find_submit(on: object) -> Callable[..., Future[object]]:
    """Return the function that hands work to an engine; raises ConfigError for another object."""
    distributed = sys.modules.get("distributed")
    if distributed is not None and isinstance(on, distributed.Client):
        if on.asynchronous:
            raise errors.ConfigError("on is an asynchronous Dask client: give one that is not")
        return lambda *work: asyncio.run_coroutine_threadsafe(
            _run_in_dask(on, *work), on.loop.asyncio_loop
        )
    if isinstance(on, Executor):
        return on.submit
    raise errors.ConfigError(
        f"on is a {type(on).__name__}: give a dask.distributed.Client, or an Executor of "
        "concurrent.futures, loky, ipyparallel or mpi4py"
    )


async def _run_in_dask(client: Any, *work: object) -> object:
    """Return what a function returns on a worker; in the loop of Dask's client."""
    future = client.submit(*work, pure=False)
    try:
        return await future
    finally:
        # It would be computed again if the worker that holds it died.
        future.release()


def _send(
    model: RemoteModel | Client, request: ModelRequest
) -> tuple[list[StreamChunk], errors.AgentError | None]:
    """Return the reply, as far as it came, and its failure; on a worker."""
    if distributed := sys.modules.get("distributed"):
        # A request only waits: the thread of Dask's worker is left to another task.
        with suppress(ValueError):
            distributed.secede()
    client = _client_of(model) if isinstance(model, RemoteModel) else model
    return EngineThread.current().wait_for(_collect(client, request))


def _prepare(model: RemoteModel | Client) -> None:
    """Make the client, so that later requests find it; on a worker."""
    if isinstance(model, RemoteModel):
        _client_of(model)


async def _collect(
    client: Client, request: ModelRequest
) -> tuple[list[StreamChunk], errors.AgentError | None]:
    chunks: list[StreamChunk] = []
    try:
        async with aclosing(client.stream(request)) as stream:
            async for chunk in stream:
                chunks.append(chunk)
    except errors.AgentError as error:
        return chunks, error
    return chunks, None


def _call(function: Callable[..., object], arguments: JsonDict) -> object:
    """Return what a tool's function returns; on a worker."""
    result = function(**arguments)
    return EngineThread.current().wait_for(_await(result)) if isawaitable(result) else result


async def _await(result: Awaitable[object]) -> object:
    return await result


def _receive(function: object) -> None:
    """Take a function; on a worker."""


def _describe(error: Exception) -> str:
    return errors.name_and_text(error, first_line(str(error)))
