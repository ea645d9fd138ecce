"""Convert a provider's failure into ours: transient or final, with a readable message."""

from __future__ import annotations

import json
import re
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from typing import Literal
from urllib.parse import urlsplit

from ipyagent.errors import (
    ContextOverflowError,
    MalformedCallError,
    ModelError,
    ModelRefusedError,
    ModelUnavailableError,
)
from ipyagent.llm import service_error
from ipyagent.llm.destinations import Destination, list_able
from ipyagent.plaintext import ellipsize
from ipyagent.providers import PROXY, is_too_long

Trouble = Literal["", "refused", "dns", "certificate", "tls", "redirects", "timeout", "tools"]

_OTHER = "or choose another model with `%agent model ID`"
_ABLE = "Choose a model that can with `%agent model ID`; `%agent model` lists models."
_ADDRESS = "`%agent config llm.api_base=URL`"
_NOT_ACCEPTED = re.compile(r"certificate verify failed: (.+?)\.?\s*\(_ssl")


def trouble_of(errors: Iterable[BaseException]) -> Trouble:
    """Classify what kept a connection from being made, from an error and those that led to it."""
    for error in errors:
        name = type(error).__name__
        if name == "TooManyRedirects":
            return "redirects"
        if "CERTIFICATE_VERIFY" in str(error) or "CertificateError" in name:
            return "certificate"
        if isinstance(error, ssl.SSLError):
            return "tls"
        if isinstance(error, socket.gaierror):
            return "dns"
        if isinstance(error, ConnectionRefusedError):
            return "refused"
        if isinstance(error, TimeoutError) or "Timeout" in name:
            return "timeout"
    return ""


def tls_problem(errors: Iterable[BaseException]) -> str:
    """Explain why no secure connection was made, from an error and those that led to it."""
    for error in errors:
        if found := _NOT_ACCEPTED.search(str(error)):
            return f"its server's certificate was not accepted ({found[1]})"
        if isinstance(error, ssl.SSLError) and (reason := getattr(error, "reason", None)):
            return f"no secure connection could be made ({reason.replace('_', ' ').lower()})"
    return "no secure connection could be made"


def asked_at(where: Destination) -> str:
    """Return the address that was asked and where its key came from; never the key."""
    address = address_of(where) or f"the address that LiteLLM has for {where.provider}"
    key = f"with the key in {where.key_from}" if where.key_from else "without a key"
    own = where.base is None  # LiteLLM finds credentials of its own
    return f"Asked at {address}." if own else f"Asked at {address}, {key}."


def address_of(where: Destination) -> str:
    """Return the address without possible secrets; empty if LiteLLM builds it."""
    parts = urlsplit(where.base or "")
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if host else ""


def next_step(where: Destination, model: str, status: int, trouble: Trouble = "") -> str:
    """Return a remedy for that failure."""
    is_ollama = where.provider == "ollama"
    if trouble == "tools":
        able = [f"`%agent model ollama/{name}`" for name in list_able(where.base or "")[:3]]
        return f"Models there that can: {', '.join(able)}." if able else _ABLE
    match status:
        case 402 if where.provider == PROXY:
            return "Ask whoever gave you the key for more, or wait until its budget is renewed."
        case 403 if where.provider == PROXY:
            return "`%agent model` lists those that the key may use; `%agent model ID` chooses one."
        case 401 | 403:
            return _about_key(where)
        case 404 if is_ollama:
            name = model.partition("/")[2]
            return f"Fetch the model with `ollama pull {name}`, {_OTHER}."
        case 404 | 405:
            return (
                f"Check the model's name and the address ({_ADDRESS}): one that speaks OpenAI's "
                f"format usually ends in /v1, {_OTHER}."
            )
        case 402:
            return f"Check the account's balance and limits, {_OTHER}."
        case 429:
            return f"Wait a little, check the account's limits, {_OTHER}."
        case _ if 400 <= status < 500:
            return f"Check `%agent config llm`, {_OTHER}."
        case _ if status >= 500:
            return f"The service itself is in trouble: try again later, {_OTHER}."
    return _about_connection(where, trouble)


def _about_key(where: Destination) -> str:
    if where.key_from is None:
        wanted = where.keys[0] if where.keys else "LITELLM_API_KEY"
        return f"Set the environment variable {wanted} to a key, {_OTHER}."
    return (
        f"Check the key in {where.key_from} (llm.api_key_env names another variable) and what it "
        f"may be used for, {_OTHER}."
    )


def _about_connection(where: Destination, trouble: Trouble) -> str:
    host = urlsplit(where.base or "").hostname or ""
    if trouble == "redirects":
        return f"It sends requests round in a circle: correct the address with {_ADDRESS}."
    if trouble == "certificate":
        return (
            "Where your network has certificates of its own, name their file in SSL_CERT_FILE "
            f"before the kernel starts; else correct the address with {_ADDRESS}, {_OTHER}."
        )
    if trouble == "tls":
        return (
            "Does that server speak https? If not, write http:// in the address with "
            f"{_ADDRESS}, {_OTHER}."
        )
    if trouble == "dns":
        return f"No address is known for {host}: correct {_ADDRESS}, or check the network."
    if where.provider == "ollama":
        return f"Is Ollama running? Start it with `ollama serve`, {_OTHER}."
    if is_local(where):
        return f"Is the server running? Start it, correct the address with {_ADDRESS}, {_OTHER}."
    if trouble == "timeout":
        return f"Check the network, raise llm.timeout, {_OTHER}."
    return f"Check the network and its proxy (HTTPS_PROXY), the address ({_ADDRESS}), {_OTHER}."


def is_local(where: Destination) -> bool:
    """Return whether that address is on this machine."""
    host = urlsplit(where.base or "").hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


CANNOT = "cannot call tools, so it cannot work on your data"
CUT_OFF = "the connection was closed before the answer was complete."
MAX_CHARS = 500
MAX_WAIT = 3600.0  # seconds; a service that asks for more is not worth waiting for

_NO_ANSWER: set[Trouble] = {"refused", "dns", "certificate", "tls", "redirects"}
"""Connection failures, for which LiteLLM makes up a status."""

_IN_TROUBLE = 500
_OF_THE_MODEL = (ContextOverflowError, MalformedCallError)
"""Failures that no other address would cure."""

TRANSIENT = {408, 409, 425, 429}  # of the 4xx; all others say that the request itself is wrong

_LENGTH = re.compile(r"(?i)max_(\w+_)?tokens|max\w*tokens|num_predict|in the completion")
_PREFIX = re.compile(r"^\s*(litellm\.)?\w*(Error|Exception|Timeout)\s*(:|-)\s*")
_DEBRIS = re.compile(r"\n?Traceback \(most recent call last\)|\bOriginal exception: | LiteLLM Retr")
_MISSING = re.compile(r"No module named '(\w+)")
_PLAIN = {
    re.compile(
        "payload is not completed|peer closed|reset by peer|Server disconnected|^(Read|Write)Error$"
    ): CUT_OFF,
    re.compile(
        r"line \d+ column \d+ \(char \d+\)|has no attribute|validation error|codec can't decode"
        r"|recursion depth|while decompressing|Unable to get json response"
        r"|for integer string conversion"
    ): "the answer is malformed and cannot be read.",
}
_FINAL = re.compile(
    r"(?i)insufficient|balance|quota|billing|invalid|not[_ ](found|exist|support)|unauthori[sz]ed"
    r"|forbidden|permission|denied|api[_ ]key|unsupported"
)
_PASSING = re.compile(
    r"(?i)rate.?limit|too many|overload|busy|again|later|tempora|timed?.?out|unavailable|internal"
)
"""Words that tell whether a reason without a status will still be there a moment later."""
_ACCOUNT = re.compile(
    r"(?i)insufficient|balance|quota|billing|credits?\b|arrears"
    r"|budget has been exceeded|exceeded.?budget|over budget"
)
_USED_UP = re.compile("insufficient_quota|budget_exceeded")  # LiteLLM's proxy has budgets
_NO_TOOLS = re.compile(
    r"(?i)(?:not|n't|no \w+ (?:found )?that) support\w* (?:the )?(?:parameter:? )?\W?(?:tool|func)"
    r"|(?:tool|function)s?[ _-]?(?:use|call\w*)?\W* (?:is|are) not (?:supported|enabled|available)"
    r"|--enable-auto-tool-choice|tools param requires"
)
"""Words in which services say that a model, or the way it is served, takes no tools."""
_MALFORMED_CALL = re.compile(
    r"(?i)tool_use_failed|failed_generation|malformed_?function_?call|unexpected_?tool_?call"
    r"|(error|fail\w+) (in |to )?pars\w+ (the )?(tool|function)[ _-]?calls?"
)
_KEYS = re.compile(
    r"(?i)\b(?:(?:sk|pk|gsk|xai)[-_]|(?:key|bearer)[-_ ](?=[\w.*-]*[\d*]))[\w.*-]{7,}[\w*-]"
    r"|\bAIza[\w-]{10,}"
)


def map_error(
    error: BaseException, model: str, secret: str | None = None, where: Destination | None = None
) -> ModelError:
    """Return the error to raise instead of `error`; never shows `secret`.

    Its first line describes the failure, the second where the model was asked, and the remedy.
    """
    chain = [*_chain(error)]
    failure = _fault(chain, model, secret)
    if where is None or isinstance(failure, _OF_THE_MODEL) or failure.advised:
        return failure
    if any(isinstance(each, service_error.EventTooLargeError) for each in chain):
        return add_advice(failure, where, model, _IN_TROUBLE)
    trouble: Trouble = "tools" if _lacks_tools(chain) else trouble_of(chain)
    status = 0 if trouble in _NO_ANSWER or _is_unreached(chain) else _status(chain)
    is_refused = isinstance(failure, ModelRefusedError)
    if is_refused and _ACCOUNT.search(f"{failure}"):
        status = 402
    elif not status and any(isinstance(each, service_error.ServiceError) for each in chain):
        status = 400 if is_refused else _IN_TROUBLE
    if trouble == "redirects":
        failure = ModelRefusedError(f"{model} could not be reached: too many redirects.")
    if trouble in ("certificate", "tls"):
        failure = ModelRefusedError(f"{model} could not be reached: {tls_problem(chain)}.")
    return add_advice(failure, where, model, status, trouble)


def add_advice(
    failure: ModelError, where: Destination, model: str, status: int = 0, trouble: Trouble = ""
) -> ModelError:
    """Return the error with a second line: where the model was asked, and what to do."""
    wait = getattr(failure, "retry_after", None)
    waits = f" The service asks to wait {wait:g} s." if wait else ""
    text = f"{failure}\n{asked_at(where)}{waits} {next_step(where, model, status, trouble)}"
    advice = (
        ModelUnavailableError(text, wait)
        if isinstance(failure, ModelUnavailableError)
        else type(failure)(text)
    )
    advice.advised = True
    return advice


def _fault(chain: list[BaseException], model: str, secret: str | None) -> ModelError:
    error, bodies = chain[0], _bodies(chain)
    for each in chain:
        if isinstance(each, service_error.EventTooLargeError):
            return ModelRefusedError(f"{model} was ended: {each}.")
    cause = getattr(error, "original_exception", None) or error
    behind = dict.fromkeys(filter(None, map(service_error.reason_behind, bodies)))
    text = ": ".join([readable(cause, secret), *(_shorten(each, secret) for each in behind)])
    if "repeating the same chunk" in text:
        return ModelRefusedError(f"{model} kept repeating itself and was stopped. {text}")
    if _USED_UP.search(str(bodies)):  # a 429 that waiting won't cure
        return ModelRefusedError(f"{model}: {text}")
    if missing := _MISSING.search(text):
        return _without_address(
            f"{model} needs the package {missing[1]}: run `%pip install {missing[1]}` and restart "
            "the kernel, or choose another model."
        )
    if isinstance(cause, ImportError):
        return _without_address(f"{model} needs a package that is not installed: {text}")
    if _MALFORMED_CALL.search(f"{error} {bodies}"):
        failure = MalformedCallError(f"{model} wrote a call that could not be read: {text}")
        written = (service_error.find_error(body) for body in bodies if isinstance(body, dict))
        calls = [str(each.get("failed_generation") or "") for each in written if each]
        return failure.advise(ellipsize(hide_keys("".join(calls), secret), MAX_CHARS))
    status = _status(chain)
    if status != 429 and is_too_long(f"{type(error)} {error} {bodies}"):
        return ContextOverflowError(f"The conversation is too long for {model}: {text}")
    lacks_tools = _lacks_tools(chain)
    if lacks_tools or (400 <= status < 500 and status not in TRANSIENT):
        how = CANNOT if lacks_tools else "refused the request"
        return ModelRefusedError(f"{model} {how} ({status}): {text}")
    if not status and isinstance(cause, service_error.ServiceError) and _is_final(cause):
        return ModelRefusedError(f"{model} gave no answer: {text}")
    for pattern, plain in _PLAIN.items():
        if pattern.search(text):
            return ModelUnavailableError(f"{model}: {plain}")
    how = f"is not available now ({status})"
    if _is_mid_stream(error):
        how = "broke off"
    elif not status or _is_unreached(chain):
        how = "could not be reached"
    return ModelUnavailableError(f"{model} {how}: {text}", retry_after(_headers(cause)))


def _lacks_tools(chain: list[BaseException]) -> bool:
    """Return whether a request was refused because the model takes no tools."""
    return _status(chain) >= 400 and bool(_NO_TOOLS.search(f"{chain[0]} {_bodies(chain)}"))


def _is_final(error: service_error.ServiceError) -> bool:
    """Return whether an error without a status will come again."""
    text = f"{error.message} {error.body}"
    return bool(_FINAL.search(text)) or (error.is_whole and not _PASSING.search(text))


def refuses_length(text: str) -> bool:
    """Return whether a service's message says that it refuses a length limit."""
    return bool(_LENGTH.search(text))


def _without_address(text: str) -> ModelRefusedError:
    """Return an error that has nothing to do with the model's address."""
    error = ModelRefusedError(text)
    error.advised = True
    return error


def _is_unreached(chain: Iterable[BaseException]) -> bool:
    """Return whether a connection failed, for which LiteLLM makes up a status."""
    return any(type(each).__name__ == "APIConnectionError" for each in chain)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes, through LiteLLM's wrappers."""
    seen: set[int] = set()
    inner: BaseException | None = error
    while inner is not None and id(inner) not in seen:
        seen.add(id(inner))
        yield inner
        inner = getattr(inner, "original_exception", None) or inner.__cause__ or inner.__context__


def readable(error: BaseException, secret: str | None = None) -> str:
    """Return the provider's message: no class names, traceback or key, at most MAX_CHARS."""
    text = str(getattr(error, "message", "") or error)
    text = _DEBRIS.split(text)[0]
    while (shorter := _PREFIX.sub("", text)) != text:
        text = shorter
    return _shorten(_message_in_json(text), secret) or type(error).__name__


def _shorten(text: str, secret: str | None) -> str:
    return ellipsize(hide_keys(text, secret), MAX_CHARS)


def hide_keys(text: str, secret: str | None) -> str:
    """Return the text in one line, without the key and whatever looks like one."""
    return " ".join(_KEYS.sub("(key)", text.replace(secret, "(key)") if secret else text).split())


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the seconds in Retry-After (seconds or a date), capped; also as a proxy passes it."""
    names = ("retry-after", "Retry-After", "llm_provider-retry-after")
    value = next(filter(None, map(headers.get, names)), None)
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            date = parsedate_to_datetime(value)
        except ValueError:
            return None
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        seconds = (date - (now or datetime.now(UTC))).total_seconds()
    # Written so that NaN fails it.
    return min(max(seconds, 0.0), MAX_WAIT) if seconds > float("-inf") else None


def _bodies(chain: list[BaseException]) -> list[object]:
    return [body for each in chain if (body := getattr(each, "body", None))]


def _status(chain: list[BaseException]) -> int:
    """Return the HTTP status; an error in mid-stream has only what its body says."""
    codes = [getattr(chain[0], "status_code", None)]
    if _is_mid_stream(chain[0]) and not isinstance(chain[0], service_error.ServiceError):
        codes = [body.get("code") for body in _bodies(chain) if isinstance(body, dict)]
    return next((code for code in codes if isinstance(code, int) and 100 <= code < 1000), 0)


def _is_mid_stream(error: BaseException) -> bool:
    is_ours = isinstance(error, service_error.ServiceError) and error.is_mid_stream
    return is_ours or type(error).__name__ == "MidStreamFallbackError"


def _headers(error: BaseException) -> Mapping[str, str]:
    """Return the response's headers: LiteLLM keeps them beside the response it makes up."""
    if isinstance(error, service_error.ServiceError):
        return error.headers
    headers = getattr(error, "litellm_response_headers", None)
    return headers or getattr(getattr(error, "response", None), "headers", None) or {}


def _message_in_json(text: str) -> str:
    """Return the `message` of an error in JSON, otherwise the text."""
    start = text.find("{")
    if start < 0:
        return text
    try:
        body, _ = json.JSONDecoder().raw_decode(text, start)
        return service_error.words_of(service_error.find_error(body)) or text
    except (ValueError, RecursionError):
        return text
