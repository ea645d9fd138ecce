"""Write for the page: types of the kernel's messages.

`python protocol.py` writes them, `python protocol.py --check` compares; both need Node. `--list`
prints the fields of messages without Node.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from pydantic import BaseModel

from ipyagent.json_types import JsonDict
from ipyagent.ui.messages import Protocol

TYPES = Path(__file__).parent / "src/protocol.ts"


def schema_of(model: type[BaseModel]) -> JsonDict:
    """Return the JSON Schema of what is sent: every field, also where it has a default."""
    found = model.model_json_schema(mode="serialization")
    for definition in [found, *found["$defs"].values()]:
        fields = definition.get("properties", {})
        if fields:
            definition["required"] = list(fields)
        for field in fields.values():
            field.pop("title", None)  # or each would become a type of its own
            field.pop("default", None)
    return found


def write_types() -> str:
    """Return the TypeScript types of all messages."""
    given = json.dumps(schema_of(Protocol))
    command = ["node", "protocol.mjs"]
    made = subprocess.run(  # noqa: S603
        command, cwd=TYPES.parents[1], input=given, capture_output=True, text=True, check=False
    )
    if made.returncode:
        sys.exit(made.stderr)
    return made.stdout


def list_fields() -> str:
    """Return the names of all classes that are sent and of their fields, as JSON."""
    found = schema_of(Protocol)["$defs"].items()
    return json.dumps({n: [*d["properties"]] for n, d in found if "properties" in d})


def main(arguments: list[str]) -> None:
    """Write the types, compare them, or list the fields."""
    match arguments:
        case []:
            TYPES.write_text(write_types())
        case ["--check"]:
            if TYPES.read_text() != write_types():
                sys.exit("protocol.ts is not what the Python classes say: run `make protocol`")
        case ["--list"]:
            sys.stdout.write(list_fields())
        case _:
            sys.exit("usage: protocol.py [--check | --list]")


if __name__ == "__main__":
    main(sys.argv[1:])
