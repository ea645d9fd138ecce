"""Arguments of tools: the JSON Schema for the model, and the check of its calls.

All tools go with each request, so one schema that a service refuses would stop every request. On
the wire there is an object at the top without combinations and with names that all services take,
no references, nothing without a type, no array without items. Calls are checked by the original
schema, of any draft and any origin, under its own names, in bounded time.

Control characters are refused: they hide what would run.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from itertools import count, islice
from types import CodeType, MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, with_config
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema
from typing_extensions import TypedDict

from ipyagent.errors import ConfigError, InvalidArgumentsError
from ipyagent.json_types import JsonDict, JsonMapping, object_of, well_formed
from ipyagent.plaintext import clean_text, excerpt
from ipyagent.tools.json_schemas import CONDITIONS, Converter, Limits, References, Schema, clean

if TYPE_CHECKING:
    from jsonschema import ValidationError as SchemaProblem

    _Problems = Iterator[SchemaProblem]


MAX_SCHEMA = 100_000
"""Characters of one schema."""

_DEPTHS = (12, 8, 5, 3, 1)  # the first that takes few schemas
_MAX_SCHEMAS = 2_000
_MAX_TEXT = 10_000
_MAX_PARTS = 200
_MAX_CONDITIONS = 1_500
_LEGAL = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_NO_SCHEMA = "parameters is not a JSON Schema"
_TOO_LONG = "its schema has {:,} characters; at most {:,} are taken"


class WireSchema:
    """The schema of a tool's arguments for the wire; raises ConfigError for an unusable one.

    `schema` is sent, and `conditions` is said beside it. `names` and `required` are arguments at
    the original's top; `is_open` is true if it takes others as well.
    """

    def __init__(self, original: JsonDict) -> None:
        try:
            text = json.dumps(original, default=str)
            if len(text) > MAX_SCHEMA:
                raise ConfigError(_TOO_LONG.format(len(text), MAX_SCHEMA))
            self.references = References(json.loads(text, object_hook=_without_draft))
            self._convert(self.references.document)
        except (RecursionError, ValueError):  # ValueError: it holds itself
            raise ConfigError("its schema is nested too deeply") from None

    def _convert(self, document: JsonDict) -> None:
        found = self.references.follow(document)
        if not isinstance(found, dict):
            raise ConfigError("its schema is only a reference to something that is not in it")
        if not isinstance(found.get("properties") or {}, dict):
            raise ConfigError(f"{_NO_SCHEMA}: properties is {found['properties']!r:.100}")
        root = clean(found)
        if not _is_object(root):
            raise ConfigError("parameters has to be a JSON Schema of type object")
        self.is_open, self._parts = False, 0
        self._own: dict[str, list[object]] = {}
        """Properties by name, each with all schemas that it has to match."""
        self._offered: dict[str, list[object]] = {}
        """Properties of alternatives, each with the schemas of which it has to match one."""
        self._conditions: list[JsonDict] = []
        self.required = tuple(self._collect(root))
        self.names = (*dict.fromkeys([*self._own, *self._offered, *self.required]),)
        self._wire_names = _choose_names(self.names)
        self._own_names = {wire: own for own, wire in self._wire_names.items()}
        for depth in _DEPTHS:
            limits = Limits(depth, _MAX_SCHEMAS, _MAX_TEXT, choices=_MAX_SCHEMAS)
            converter = Converter(self.references, limits)
            self.schema = _add_types(self._describe(root, converter))
            size = len(json.dumps(self.schema))
            if not converter.is_exhausted and size <= MAX_SCHEMA:
                break
        if size > MAX_SCHEMA:
            raise ConfigError(_TOO_LONG.format(size, MAX_SCHEMA))
        if unknown := converter.unknown_types:
            raise ConfigError(f"{_NO_SCHEMA}: {unknown[0]!r:.100} is not a type")
        words = (excerpt(json.dumps(each), _MAX_CONDITIONS) for each in self._conditions if each)
        self.conditions = " ".join(f"Also: {each}" for each in dict.fromkeys(words))

    def _collect(self, node: object, *, may_match: bool = False) -> dict[str, None]:
        """Collect the properties of a part of the top; return the names that it requires."""
        found = self.references.follow(node)
        self._parts += 1
        if not isinstance(found, dict) or self._parts > _MAX_PARTS:
            self.is_open = True
            return {}
        schema = clean(found)
        properties = self._offered if may_match else self._own
        for name, each in schema.get("properties", {}).items():
            properties.setdefault(name, []).append(each)
        required = dict.fromkeys(schema.get("required", ()))
        self.is_open |= schema.get("additionalProperties", False) is not False
        rest = {key: schema[key] for key in CONDITIONS if key in schema}
        alone = [*schema.get("allOf", ())]
        for keyword in ("anyOf", "oneOf"):
            parts = [*map(self.references.follow, schema.get(keyword, ()))]
            rest |= {keyword: parts} if parts else {}
            parts = [each for each in parts if _is_object(clean(object_of(each)))]
            if len(parts) == 1:
                alone += parts
                del rest[keyword]
            elif parts:
                needed = [self._collect(each, may_match=True) for each in parts]
                required |= {key: None for key in needed[0] if all(key in n for n in needed)}
        for each in alone:
            required |= self._collect(each, may_match=may_match)
        branches = [schema[key] for key in ("then", "else") if key in schema]
        for each in (*branches, *schema.get("dependentSchemas", {}).values()):
            self._collect(each, may_match=True)
        self._conditions += [] if may_match else [rest]
        return required

    def _describe(self, root: Schema, converter: Converter) -> Schema:
        """Return the object with all its properties."""
        properties = {}
        for own, wire in self._wire_names.items():
            node = self._join(own)
            if node is False:
                continue
            properties[wire] = new = converter.convert(node)
            if own != wire:
                words = (new.get("description"), f"(its name there: {excerpt(own, 100)})")
                new["description"] = " ".join(filter(None, words))
        required = [self._wire_names[own] for own in self.required]
        required = [name for name in required if name in properties]
        schema: Schema = {"type": "object", "properties": properties}
        schema |= {"required": required} if required else {}
        schema |= {key: root[key] for key in ("minProperties", "maxProperties") if key in root}
        if text := clean_text(root.get("description", "")):
            schema["description"] = text
        if (extra := root.get("additionalProperties")) is not None:
            extra = extra if isinstance(extra, bool) else converter.convert(extra)
            schema["additionalProperties"] = extra
        return schema

    def _join(self, name: str) -> object:
        """Return one schema for a property that several parts describe."""
        nodes = self._own.get(name) or self._offered.get(name, [])
        different = [each for n, each in enumerate(nodes) if each not in nodes[:n]]
        if False in different or len(different) == 1:
            return False not in different and different[0]
        return {"allOf" if name in self._own else "anyOf": different}

    def restore(self, arguments: object) -> Any:
        """Return a call's arguments under the schema's own names."""
        if not isinstance(arguments, dict):
            return arguments
        return {self._own_names.get(name, name): each for name, each in arguments.items()}


def _without_draft(schema: JsonDict) -> JsonDict:
    """Return the object without the name of a draft: each level is read as `clean` does."""
    if isinstance(schema.get("$schema"), str):
        del schema["$schema"]
    return schema


_IN_ARRAYS = ("string", "number", "boolean", "object", "null")
_TYPES = (*_IN_ARRAYS, "array")


def _add_types(schema: Schema, types: tuple[str, ...] = _TYPES) -> Schema:
    """Return a schema in which each part has a type, the one it is meant for or all of `types`.

    Moonshot, Gemini and llama.cpp refuse a part without, and llama.cpp takes an empty one for an
    object.
    """
    new = {**schema}
    if "properties" in new:
        new["properties"] = {name: _add_types(each) for name, each in new["properties"].items()}
    if isinstance(others := new.get("additionalProperties"), dict):
        new["additionalProperties"] = not others or _add_types(others)
    if "anyOf" in new:
        new["anyOf"] = [*map(_add_types, new["anyOf"])]
    elif "type" not in new:
        new["type"] = "array" if "items" in new else [*types]
    if "items" in new or "array" in new.get("type", ()):
        new["items"] = _add_types(new.get("items", {}), _IN_ARRAYS)
    return new


def _choose_names(names: tuple[str, ...]) -> dict[str, str]:
    """Return names that every service takes, by the schema's own."""
    chosen = {name: name for name in names if _LEGAL.fullmatch(name)}
    for name in (each for each in names if each not in chosen):
        plain = re.sub(r"[^a-zA-Z0-9_.-]", "_", name)[:56] or "_"
        candidates = (plain if n == 1 else f"{plain}_{n}" for n in count(1))
        taken = chosen.values()
        chosen[name] = next(each for each in candidates if each not in taken)
    return {name: chosen[name] for name in names}


def _is_object(schema: Schema) -> bool:
    types = schema.get("type", "object")
    return "object" in (types if isinstance(types, list) else [types])


_MAX_STEPS = 5_000  # references that one check may follow

_checking: ContextVar[tuple[References, Iterator[int]]] = ContextVar("checking")
"""The document whose references are followed, and the steps that are left."""


class TooSlowError(Exception):
    """Raised if a check cannot be finished: references to references can double at each step."""


def find_problems(schema: Schema, arguments: object, references: References) -> _Problems:
    """Yield the errors that jsonschema finds; raises TooSlowError."""
    from jsonschema.exceptions import UnknownType

    token = _checking.set((references, iter(range(_MAX_STEPS))))
    try:
        yield from _validator_class()(schema).iter_errors(arguments)
    except (RecursionError, UnknownType):  # deeper than the wire's schema goes
        raise TooSlowError from None
    finally:
        _checking.reset(token)


@cache
def _validator_class() -> Any:
    """Return a validator of schemas as they are: it reads each level as `clean` does."""
    # A library that takes longer to import than all the rest of this room.
    from jsonschema import Draft202012Validator, ValidationError
    from jsonschema.validators import create

    def read_cleaned(check: Callable[..., _Problems]) -> Callable[..., _Problems]:
        return lambda validator, value, instance, schema: check(
            validator, value, instance, clean(schema)
        )

    def follow(validator: Any, reference: object, instance: object, _: object) -> _Problems:
        references, steps = _checking.get()
        if next(steps, None) is None:
            raise TooSlowError
        target = references.look_up(reference)  # nothing is fetched from elsewhere
        yield from validator.descend(instance, target if isinstance(target, dict | bool) else True)

    def match(_: object, pattern: str, text: object, __: object) -> _Problems:
        if isinstance(text, str) and not _is_match(pattern, well_formed(text)):
            yield ValidationError(f"{excerpt(text, 60)!r} does not match {pattern!r}")

    known = {key: read_cleaned(check) for key, check in Draft202012Validator.VALIDATORS.items()}
    return create(
        {},
        {**known, "$ref": follow, "pattern": match},
        id_of=lambda _: "",
        applicable_validators=lambda schema: clean(object_of(schema)).items(),
    )


def _is_match(pattern: str, text: str) -> bool:
    """Return whether the text matches, in linear time; True for a pattern of another language."""
    import re2

    options = re2.Options()
    options.log_errors = False
    with contextlib.suppress(re2.error):
        return re2.search(pattern, text, options) is not None
    return True


_MAX_PROBLEMS = 10
_MAX_PROBLEM = 300
_BOILERPLATE = frozenset(
    {"$defs", "title", "additionalProperties", "minLength", "maxLength", "maxItems", "minimum"}
)
_own_schemas: dict[CodeType, TypedArgumentSchema] = {}


class TypedArgumentSchema:
    """Arguments described by Python types. Missing ones get their defaults."""

    def __init__(self, shape: type, adapt: Callable[[JsonDict], JsonDict] = dict) -> None:
        try:
            self._types = TypeAdapter[Any](shape)
            described = self._types.json_schema(schema_generator=ClosedSchema)
        except PydanticUserError as error:
            raise ConfigError(
                f"{shape.__name__}: a tool cannot take these: {error.message}"
            ) from None
        self._wire = WireSchema(adapt(described))
        self.schema, self.conditions = self._wire.schema, self._wire.conditions

    def validate(self, arguments: JsonDict) -> JsonDict:
        """Return the arguments converted to their types; raises InvalidArgumentsError."""
        try:
            given = self._wire.restore(arguments)
            checked = self._types.validate_python(given, extra="forbid")
        except ValidationError as error:
            found = (_format_problem(each["loc"], each["msg"]) for each in error.errors())
            raise InvalidArgumentsError(_join_problems(found)) from None
        if isinstance(checked, BaseModel):
            return {name: getattr(checked, name) for name in type(checked).model_fields}
        return dict(checked)


class JsonArgumentSchema:
    """Arguments described by a JSON Schema; the function gets them exactly as they were sent."""

    def __init__(self, schema: Mapping[str, object]) -> None:
        self._wire = wire = WireSchema({**schema})
        self.schema, self.conditions = wire.schema, wire.conditions
        names = dict.fromkeys(wire.names, True)
        self._names: JsonDict = {"properties": names, "required": [*wire.required]}
        self._checked: JsonDict = {**wire.references.document, "type": "object"}
        if not wire.is_open:
            known = {**names, **object_of(self._checked.get("properties"))}
            self._names["additionalProperties"] = False
            self._checked |= {"properties": known, "additionalProperties": False}

    def validate(self, arguments: JsonDict) -> JsonDict:
        """Return the arguments if they match the schema; raises InvalidArgumentsError."""
        given: JsonDict = self._wire.restore(arguments)
        try:
            problems = self._list_problems(self._checked, given)
        except TooSlowError:  # then only the names are checked
            problems = self._list_problems(self._names, given)
        if problems:
            raise InvalidArgumentsError(problems)
        return given

    def _list_problems(self, schema: JsonDict, arguments: object) -> str:
        errors = find_problems(schema, arguments, self._wire.references)
        return _join_problems(_format_problem(each.absolute_path, each.message) for each in errors)


ArgumentSchema = TypedArgumentSchema | JsonArgumentSchema


def signature_schema(
    function: Callable[..., object], local: Mapping[str, object] | None = None
) -> TypedArgumentSchema:
    """Return the schema of a function's signature; `local` are names that annotations may use."""
    code = getattr(function, "__code__", None)
    if code is None or not str(function.__module__).startswith("ipyagent."):
        return _build_schema(function, local or {})
    # Our own tools are made again for each run, from the same code.
    if code not in _own_schemas:
        _own_schemas[code] = _build_schema(function, local or {}, _shorten)
    return _own_schemas[code]


def _build_schema(
    function: Callable[..., object],
    local: Mapping[str, object],
    adapt: Callable[[JsonDict], JsonDict] = dict,
) -> TypedArgumentSchema:
    types = _resolve_annotations(function, local)
    fields: JsonDict = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ConfigError(
                f"{function.__name__}: a model gives arguments by name only, not {parameter}"
            )
        given, default = types.get(parameter.name, Any), parameter.default
        if default is parameter.empty:
            fields[parameter.name] = given
        else:
            field = default if isinstance(default, FieldInfo) else Field(default=default)
            given = Annotated[given, field]
            fields[parameter.name] = given if field.is_required() else NotRequired[given]
    # A TypedDict and no model: its keys may have any name, even `schema` or `_x`.
    shape = TypedDict(function.__name__, fields)  # type: ignore[misc]
    return TypedArgumentSchema(with_config(ConfigDict(extra="forbid"))(shape), adapt)


def _resolve_annotations(function: Callable[..., object], local: Mapping[str, object]) -> JsonDict:
    origin = inspect.unwrap(function)
    # Only the parameters' annotations are resolved: a return type may name a module that the
    # author never imported ("pandas.DataFrame").
    noted = getattr(origin, "__annotations__", {})
    hints = {name: note for name, note in noted.items() if name != "return"}
    try:
        return get_type_hints(
            SimpleNamespace(__annotations__=hints),
            getattr(origin, "__globals__", {}),
            dict(local),
            include_extras=True,
        )
    except NameError as error:
        raise ConfigError(
            f"{function.__name__}: {error}; define the type at the top level, before the tool"
        ) from None


def _format_problem(path: Iterable[object], message: str) -> str:
    return f"{'.'.join(map(str, path)) or 'arguments'}: {message}"[:_MAX_PROBLEM]


def _join_problems(problems: Iterator[str]) -> str:
    some = list(islice(problems, _MAX_PROBLEMS + 1))
    return "; ".join([*some[:_MAX_PROBLEMS], *["…"] * (len(some) > _MAX_PROBLEMS)])


class ClosedSchema(GenerateJsonSchema):
    """Generates short schemas that allow no additional properties."""

    ignored_warning_kinds = frozenset({"skipped-choice", "non-serializable-default"})  # type: ignore[assignment]

    def field_title_should_be_set(self, schema: object) -> bool:
        """Return False: titles only repeat the names."""
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Forbid additional properties, which pydantic's models ignore by default."""
        model = super().model_schema(schema)
        return model | {"additionalProperties": False} if "properties" in model else model


def _shorten(schema: object, definitions: JsonMapping = MappingProxyType({})) -> Any:
    """Return the schema of a tool of ours without what a model can do without.

    Each request carries it. The check refuses unknown arguments and lengths anyway, null may be
    left out, and the docstrings of our classes are for programmers.
    """
    if isinstance(schema, list):
        return [_shorten(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    definitions = schema.get("$defs", definitions)
    if "$ref" in schema:
        target = {**definitions[schema["$ref"].removeprefix("#/$defs/")]}
        target.pop("description", None)
        schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
    elif schema.get("default", schema) is None and len(kinds := _non_null(schema)) == 1:
        schema = {**kinds[0], **{key: schema[key] for key in schema if key != "anyOf"}}
    return {
        key: {name: _shorten(each, definitions) for name, each in value.items()}
        if key == "properties"
        else _shorten(value, definitions)
        for key, value in schema.items()
        if not (key in _BOILERPLATE or (key == "default" and _is_implied(value)))
    }


def _is_implied(default: object) -> bool:
    return default is None or default is False or default == ""


def _non_null(schema: JsonDict) -> list[JsonDict]:
    return [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]


_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]|\r(?!\n)")


def check_control_characters(arguments: JsonDict) -> None:
    """Raise InvalidArgumentsError for text with controls other than tab, newline and CRLF.

    Terminals act on them, Python ends a line at a carriage return, and IPython at every character
    at which `str.splitlines` does, so the user would not read what runs.
    """
    for place, text in _walk_texts("", arguments):
        if match := _CONTROL.search(text):
            raise InvalidArgumentsError(_refusal_message(place, text, match))


def _walk_texts(place: str, value: object) -> Iterator[tuple[str, str]]:
    match value:
        case str():
            yield place, value
        case dict():
            for key, each in value.items():
                yield f"a name in {place}" if place else "an argument's name", str(key)
                yield from _walk_texts(f"{place}.{key}" if place else str(key), each)
        case list() | tuple():
            for number, each in enumerate(value):
                yield from _walk_texts(f"{place}[{number}]", each)


def _refusal_message(place: str, text: str, match: re.Match[str]) -> str:
    char, at = match[0], match.start()
    before = text[:at].replace("\r\n", "\n")
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    escape = char.encode("unicode_escape").decode("ascii")
    return (
        f"{place} holds the control character U+{ord(char):04X} at line {line}, column "
        f"{column}, so nobody was asked and nothing was done. Lines end with a newline; in a "
        f"string of source code write the escape sequence {escape} instead. Where a file needs "
        "the character itself, let code write it"
    )
