from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ipyagent.errors import ModelRefusedError, ModelUnavailableError
from ipyagent.llm.error_mapping import MAX_CHARS, MAX_WAIT, map_error, readable, retry_after
from ipyagent.llm.service_error import ServiceError, find_error, words_of

NOW = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.spec("M01")
@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("Fri, 01 May 2026 12:00:30 GMT", 30.0),
        ("Fri, 01 May 2026 11:00:00 GMT", 0.0),
        ("Fri, 01 May 2026 12:00:30", 30.0),
        ("99999999999", MAX_WAIT),
        ("1e400", MAX_WAIT),
        ("Fri, 01 May 2099 12:00:00 GMT", MAX_WAIT),
        ("nan", None),
        ("soon", None),
        ("", None),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_never_absurd(
    value: str, seconds: float | None
) -> None:
    assert retry_after({"retry-after": value}, NOW) == seconds


def test_a_missing_retry_after_is_none() -> None:
    assert retry_after({}) is None


@pytest.mark.parametrize(
    "raw",
    [
        "litellm.RateLimitError: RateLimitError: OpenAIException - too fast",
        'litellm.InternalServerError: AnthropicException - {"type":"error","error":'
        '{"type":"overloaded_error","message":"too fast"}}. Handle with `litellm.X`.',
        "litellm.APIError: too\nfast\nTraceback (most recent call last):\n  File 'x.py'",
        'GroqException - {"error": "too fast"}',
        'GeminiException - [{"error": {"code": 429, "message": "too fast"}}]',
    ],
)
def test_the_providers_own_words_remain(raw: str) -> None:
    assert readable(Exception(raw)) == "too fast"


PLACES = ("error", "errors", "base_resp", "detail", "details", "choices")
TEXTS = ["message", "msg", "status_msg", "error_msg", "error_message", "errorMessage", "reason"]
CODES = ("code", "status", "status_code", "http_code", "type")
STATUSES = {
    400: "invalid_request_error BadRequestError exceed_context_size_error 400",
    401: "authentication_error invalid_api_key",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error model_not_found",
    413: "request_too_large",
    429: "rate_limit_error rate_limit_exceeded",
    500: "api_error server_error",
    504: "timeout_error",
    529: "overloaded_error",
    0: "200 1008 something",
}


def test_an_error_is_found_under_every_name_that_services_give_it() -> None:
    for text in TEXTS:
        assert words_of(find_error({text: "no"})) == "no", text
    for place in PLACES:
        assert find_error({place: {"message": "no"}}) == {"message": "no"}, place
        assert words_of({place: "no"}) == "no", place
    for code in CODES:
        for status, names in STATUSES.items():
            for name in names.split():
                error = ServiceError.in_stream({"message": "no", code: name})
                assert error.status_code == status, (code, name)
    for code in CODES[:3]:
        for fine in (0, "0", 200, "200", "ok", "success"):
            assert find_error({"message": "no", code: fine}) is None, (code, fine)


def test_no_form_of_a_key_is_shown() -> None:
    text = readable(Exception("key abcd1234 sk-proj-abcdefghij Bearer xyz123456789"), "abcd1234")
    for secret in ("abcd1234", "abcdefghij", "xyz123456789"):
        assert secret not in text


def test_a_long_message_is_cut() -> None:
    assert len(readable(Exception("word " * 1000))) == MAX_CHARS


def test_a_missing_package_is_final_and_named() -> None:
    error = map_error(ImportError("Missing boto3 to call bedrock."), "bedrock/x")
    assert type(error) is ModelRefusedError
    assert "boto3" in str(error)


def test_an_error_nobody_foresaw_is_still_ours() -> None:
    error = map_error(RuntimeError(""), "openai/x")
    assert type(error) is ModelUnavailableError
    assert "RuntimeError" in str(error)
