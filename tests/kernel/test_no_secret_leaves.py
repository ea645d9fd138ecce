"""Known secrets of a kernel reach no sink: page, notebook, journal, log, files, wire."""

import base64
import json
from pathlib import Path

import pytest

from kernels import Page, asking, kernel
from servers.model_server import ModelServer, answer

pytestmark = pytest.mark.kernel

CANARY = "quiet-Canary/7f+Zq93xVb"
LOOKS = "ghp_0123456789abcdefghij0123456789abcdef"
NAMED = ["Blue Kettle Summer", "correcthorsebattery", "Xk29-fjQ8v_Lz0pRt", "Rainy-Day-Umbrella"]
"""Known by the names of a variable, a key and two columns alone."""
SETUP = f"""
import os
import pandas as pd
backwards = {[value[::-1] for value in NAMED]}  # nothing that is typed may be a secret itself
password, login, column, other = (text[::-1] for text in backwards)
settings = {{"db": {{"password": login}}}}
users = pd.DataFrame({{"name": ["ada", "bob"], "api_key": [column, None], "Password": ["", other]}})
print(os.environ["SERVICE_TOKEN"])
"""
CODE = f"""
import base64, os
print(password, settings)
display(users)
made_here = {{"smtp_pass": "{NAMED[0][::-1]}"[::-1]}}
print(made_here)
canary = os.environ["SERVICE_TOKEN"]
print(canary, canary.encode().hex(), base64.b64encode(canary.encode()).decode())
print("x\\n" * 2000, canary)  # cut for the model; the whole is saved
print("{LOOKS[:8]}" + "{LOOKS[8:]}")
raise ValueError(canary)
"""
FORMS = [
    CANARY.encode(),
    CANARY.encode().hex().encode(),
    base64.b64encode(CANARY.encode()),
    LOOKS.encode(),
    *(value.encode() for value in NAMED),
]


def secrets_in(*places: bytes) -> list[bytes]:
    return [form for form in FORMS for place in places if form in place]


@pytest.mark.spec("A06", "H15")
def test_secrets_from_any_source_reach_no_sink(tmp_path: Path) -> None:
    replies = [
        answer(calls=[("run_python", {"code": CODE})]),
        answer(f"The token is {CANARY}, or {LOOKS}.", thinking=f"It begins {CANARY}"),
        answer("Thanks."),
    ]
    with ModelServer(replies) as server:
        settings = {"IPYAGENT_LOGGING__FILE": "log.jsonl", "IPYAGENT_AGENT__CONFIRM_MODE": "yolo"}
        with kernel(tmp_path, SERVICE_TOKEN=CANARY, **asking(server), **settings) as started:
            plain = started.run(SETUP)
            assert CANARY in plain.stdout  # the kernel does know it
            heard: list[object] = []
            page = Page(started)

            def listen(message: dict[str, object]) -> None:
                heard.append({**message, "header": None, "parent_header": None, "metadata": None})
                page(message)

            asked = started.run("%%agent\nWhat is the token?", page=listen)
            reply = started.run(f"%%agent\nUse {LOOKS} for it.", page=listen)
            assert asked.run["status"] == reply.run["status"] == "done"
            assert "looks like a secret" in json.dumps(reply.run["notes"])
            text = json.dumps(heard, default=str).encode()
        wire = json.dumps([request.body for request in server.requests]).encode()
    # The cells' own text is the user's: front ends get it as execute_input.
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert any(b"hidden" in data for data in files)
    assert secrets_in(wire, *files) == []
    assert set(secrets_in(text)) == {LOOKS.encode()}
    assert text.count(LOOKS.encode()) == 1
