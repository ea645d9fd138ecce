"""Write for the page: types of the kernel's messages, and reveal's table.

`python protocol.py` writes them, `python protocol.py --check` compares; both need Node. `--reveal`
and `--list` print the table and the fields of messages without Node.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from pydantic import BaseModel

from ipyagent.json_types import JsonDict
from ipyagent.ui.messages import Protocol
from ipyagent.ui.reveal import LIMITS, LOOKALIKES

SOURCES = Path(__file__).parent / "src"


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
        command, cwd=SOURCES.parent, input=given, capture_output=True, text=True, check=False
    )
    if made.returncode:
        sys.exit(made.stderr)
    return made.stdout


def write_reveal() -> str:
    """Return the limits of `reveal`, and the letters that look Latin."""
    return json.dumps({**LIMITS, "lookalikes": "".join(sorted(LOOKALIKES))}, indent=1) + "\n"


FILES = {
    "reveal.json": write_reveal,
    "protocol.ts": write_types,
}


def list_fields() -> str:
    """Return the names of all classes that are sent and of their fields, as JSON."""
    found = schema_of(Protocol)["$defs"].items()
    return json.dumps({n: [*d["properties"]] for n, d in found if "properties" in d})


def main(arguments: list[str]) -> None:
    """Write the files, compare them, or say what does without Node."""
    match arguments:
        case []:
            for name, write in FILES.items():
                (SOURCES / name).write_text(write())
        case ["--check"]:
            for name, write in FILES.items():
                if (SOURCES / name).read_text() != write():
                    sys.exit(f"{name} is not what the Python classes say: run `make protocol`")
        case ["--reveal"]:
            sys.stdout.write(write_reveal())
        case ["--list"]:
            sys.stdout.write(list_fields())
        case _:
            sys.exit("usage: protocol.py [--check | --reveal | --list]")


if __name__ == "__main__":
    main(sys.argv[1:])
