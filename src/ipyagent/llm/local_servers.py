"""Short questions to model servers on this machine, which answer soon or not at all.

One is about the size of a model, which decides how much it is given at once. The window is known
from the map of models; the parameters from the model's name, or from Ollama, which tells both of a
model that it serves.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

from ipyagent.json_types import JsonDict, object_of
from ipyagent.llm.client import Client, ModelSize, Sized

CONNECT_SECONDS = 0.2


def ask_server(
    url: str, body: object = None, *, seconds: float, most_bytes: int
) -> tuple[int, object] | None:
    """Return the status and the JSON at an http URL; None without a useful answer.

    A body is sent as JSON in a POST. `seconds` limits each wait for the answer.
    """
    parts = urlsplit(url)
    method, data = ("GET", None) if body is None else ("POST", json.dumps(body).encode())
    connection = HTTPConnection(parts.netloc, timeout=CONNECT_SECONDS)
    try:
        connection.connect()
        connection.sock.settimeout(seconds)
        connection.request(method, parts.path, data)
        response = connection.getresponse()
        return response.status, json.loads(response.read(most_bytes))
    except (OSError, HTTPException, ValueError, RecursionError):
        return None
    finally:
        connection.close()


ANSWER_SECONDS = 1.0
_ANSWER_BYTES = 5_000_000

_IN_NAME = re.compile(r"(?<![\w.])(\d{1,3}(?:\.\d)?)b(?![a-z0-9])", re.IGNORECASE)
_EXPERTS = re.compile(r"\d+x\d", re.IGNORECASE)
_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)", re.MULTILINE)


def size_of(client: Client) -> ModelSize:
    """Return the size of a client's model. May block."""
    return client.size() if isinstance(client, Sized) else ModelSize(window=client.context_window)


def size_in_name(model: str) -> float | None:
    """Return the billions of parameters that a model's id names, such as `qwen3:8b`."""
    name = model.rpartition("/")[2]
    found = None if _EXPERTS.search(name) else _IN_NAME.search(re.sub("[-:_]", " ", name))
    return float(found[1]) if found else None


@lru_cache(maxsize=32)
def ask_ollama(address: str, name: str) -> ModelSize | None:
    """Return what Ollama's `/api/show` tells of a model; None if it does not answer soon.

    Of failures nothing is remembered but for this kernel: the name decides then.
    """
    url, body = f"{address.rstrip('/').removesuffix('/v1')}/api/show", {"model": name}
    if urlsplit(url).scheme != "http":
        return None
    answer = ask_server(url, body, seconds=ANSWER_SECONDS, most_bytes=_ANSWER_BYTES)
    if answer is None or answer[0] != 200 or not isinstance(answer[1], dict):
        return None
    info = object_of(answer[1].get("model_info"))
    count = info.get("general.parameter_count")
    parameters = round(count / 1e9, 1) if isinstance(count, int | float) and count > 0 else None
    return ModelSize(parameters, _window(info, answer[1].get("parameters")))


def _window(info: JsonDict, settings: object) -> int | None:
    """Return the context that the model is run with, if it is set, or else could have."""
    if isinstance(settings, str) and (found := _NUM_CTX.search(settings)):
        return int(found[1])
    lengths = [value for key, value in info.items() if key.endswith(".context_length")]
    return next((value for value in lengths if isinstance(value, int) and value > 0), None)
