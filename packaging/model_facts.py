"""Write the facts about models anew, from the map of the LiteLLM that is installed.

usage: python packaging/model_facts.py
"""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from ipyagent.providers import PROVIDERS

TARGET = Path(__file__).parents[1] / "src/ipyagent/llm/models.json"
SOURCE = "model_prices_and_context_window_backup.json"
KINDS = {"chat", "responses"}
WANTED = re.compile(
    r"((input|output)_cost_per_token|cache_(read|creation)_input_token_cost)(_above_\d+k_tokens)?"
    r"|max_(input|output)_tokens|supports_vision|litellm_provider|mode"
)
PLAIN = {"mode": "chat"}
"""What need not be said."""


def select(models: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    """Return the facts that are used, of the models of providers in our table."""
    return {
        name: {
            key: value
            for key, value in sorted(facts.items())
            if WANTED.fullmatch(key) and value and PLAIN.get(key) != value
        }
        for name, facts in sorted(models.items())
        if facts.get("mode") in KINDS
        and str(facts.get("litellm_provider", "")).startswith(tuple(PROVIDERS))
    }


def write(models: dict[str, dict[str, object]], source: str, date: str) -> str:
    """Return the file: a line for each model, so that one can be read without the others."""
    lines = [f"{json.dumps(name)}: {json.dumps(facts)}" for name, facts in models.items()]
    head = f'{{"source": {json.dumps(source)}, "date": {json.dumps(date)}, "models": {{\n'
    return head + ",\n".join(lines) + "\n}}\n"


def main() -> None:
    """Write the file."""
    spec = find_spec("litellm")
    if spec is None or spec.origin is None:
        sys.exit("it needs LiteLLM: pip install 'ipyagent[litellm]'")
    models = json.loads((Path(spec.origin).parent / SOURCE).read_text())
    source = f"https://github.com/BerriAI/litellm, version {version('litellm')}"
    TARGET.write_text(write(select(models), source, f"{datetime.now(UTC):%Y-%m-%d}"))


if __name__ == "__main__":
    main()
