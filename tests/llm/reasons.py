"""The forms in which services give the reason why there is no reply, in the midst of a stream."""

from __future__ import annotations

import json
from typing import Any

from ipyagent.errors import (
    ContextOverflowError,
    ModelError,
    ModelRefusedError,
    ModelUnavailableError,
)

TOO_LONG = "the request exceeds the available context size, try increasing it"

REASONS: dict[str, tuple[Any, type[ModelError], str]] = {
    "a field of its own": (
        f"error: {json.dumps({'code': 400, 'message': TOO_LONG})}\n\n".encode(),
        ContextOverflowError, TOO_LONG,
    ),
    "a field of its own, of words": (b"error: invalid model\n\n", ModelRefusedError,
                                     "invalid model"),
    "an event of that name": (b"event: error\ndata: {\"message\": \"no such model\", "
                              b"\"code\": 404}\n\n", ModelRefusedError, "no such model"),
    "an event of that name, of words": (b"event: error\ndata: the model was not found\n\n",
                                        ModelRefusedError, "the model was not found"),
    "MiniMax": ({"choices": None, "base_resp": {"status_code": 1008,
                 "status_msg": "insufficient balance"}}, ModelRefusedError,
                "insufficient balance"),
    "FastAPI": ({"detail": "Model not loaded"}, ModelRefusedError, "Model not loaded"),
    "FastAPI's list": ({"detail": [{"loc": ["body"], "msg": "field required",
                                    "type": "missing"}]}, ModelRefusedError, "field required"),
    "code and message": ({"code": 1301, "message": "the account is in arrears"},
                         ModelRefusedError, "in arrears"),
    "Cloudflare": ({"success": False, "errors": [{"code": 7000, "message": "No route"}]},
                   ModelRefusedError, "No route"),
    "vLLM": ({"object": "error", "message": "no such adapter", "code": 404},
             ModelRefusedError, "no such adapter"),
    "null choices": ({"error": {"message": "bad grammar", "code": "400"}, "choices": None},
                     ModelRefusedError, "bad grammar"),
    "within the choice": ({"choices": [{"index": 0, "delta": {}, "finish_reason": "error",
                           "error": {"code": 402, "message": "out of credits"}}]},
                          ModelRefusedError, "out of credits"),
    "Gemini's list": ([{"error": {"code": 400, "message": "unknown field"}}],
                      ModelRefusedError, "unknown field"),
    "Amazon": ({"Message": "Access denied"}, ModelRefusedError, "Access denied"),
    "a text": (b"data: Model is not deployed\n\n", ModelRefusedError, "Model is not deployed"),
    "a JSON of several lines": (b'{\n  "error": {\n    "message": "no credit", "code": 402\n  }\n}',
                                ModelRefusedError, "no credit"),
    "one that passes": ({"detail": "Server is busy, try again"}, ModelUnavailableError, "busy"),
    "OpenRouter's, of the service behind it": (
        {"error": {"message": "Provider returned error", "code": 400, "metadata": {
            "raw": json.dumps({"error": {"message": "top_k is not known"}})}}},
        ModelRefusedError, "Provider returned error: top_k is not known"),
    "OpenRouter's, in words": (
        {"error": {"message": "Provider returned error", "code": 400, "metadata": {
            "raw": "no such adapter", "provider_name": "Nebius"}}},
        ModelRefusedError, "Provider returned error: no such adapter"),
    "Anthropic's text": ({"type": "error", "error": "your plan has ended, invalid key"},
                         ModelRefusedError, "your plan has ended"),
    "Anthropic's type": ({"type": "error", "error": {"type": "overloaded_error",
                          "message": "Overloaded"}}, ModelUnavailableError, "Overloaded"),
}  # fmt: skip
