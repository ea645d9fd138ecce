"""The form of the answer: which value belongs into which `@name[...]`, written as it was asked."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ipyagent.explorer.markdown import code
from ipyagent.explorer.names import words
from ipyagent.explorer.questions.measure import Kind, Measure, Result, Values, as_number
from ipyagent.explorer.questions.prompt import Prompt, Slot
from ipyagent.explorer.questions.vocabulary import FORM
from ipyagent.explorer.steps import MisfitError
from ipyagent.explorer.vocabulary import NUMBER_WORDS

_NUMBERS = {word: n for n, word in enumerate(NUMBER_WORDS[:8])}
_DIGITS = re.compile(rf"\b({'|'.join(_NUMBERS)}|\d+)[ -](?:decimal|digit)", re.IGNORECASE)
_WHOLE = re.compile(r"\b(?:integer|whole number)\b", re.IGNORECASE)
_TEXT = re.compile(r"\b(?:string|text|name)\b", re.IGNORECASE)
_OFFERS = re.compile(r"\b(?:yes|no|true|false|either|one of)\b", re.IGNORECASE)
_QUOTED = re.compile(r"(?:[\"“\u2018]|(?<!\w)')([^\"“”'\u2018\u2019]+)(?:[\"”\u2019]|'(?!\w))")

Filled = list[tuple[Slot, Result]]


def assign(prompt: Prompt, measures: Sequence[Measure]) -> Filled:
    """Return the result for each slot; raises MisfitError where that would be a guess."""
    results = [each for measure in measures for each in measure.results if each.words]
    filled = [(slot, _choose(slot, results)) for slot in prompt.slots]
    if len({id(result) for _, result in filled}) < len(filled):
        raise MisfitError("I can't tell which number belongs where in the form of the answer.")
    return filled


def _choose(slot: Slot, results: Sequence[Result]) -> Result:
    kinds = _kinds(slot)
    fitting = [each for each in results if each.kind in kinds]
    wanted = set(words(slot.name)) | set(words(slot.held))
    scored = [(len(wanted & each.words), each) for each in fitting]
    best = max((score for score, _ in scored), default=0)
    chosen = [each for score, each in scored if score == best]
    if best == 0:
        chosen = chosen[:1] if len(fitting) == 1 or fitting[:1] == results[:1] else []
    if len(chosen) != 1:
        raise MisfitError(f"I don't know what belongs into {code(f'@{slot.name}[{slot.held}]')}.")
    return chosen[0]


def _kinds(slot: Slot) -> set[Kind]:
    if _choices(slot):
        return {"truth"}
    if _OFFERS.search(slot.about):
        raise MisfitError(f"I can't tell what may stand in {code(f'@{slot.name}[{slot.held}]')}.")
    if _TEXT.search(_beyond_names(slot)):
        return {"text"}
    if _WHOLE.search(slot.about):
        return {"count", "number"}
    return (
        {"number", "count"} if _digits_in(slot.about) is not None else {"number", "count", "text"}
    )


def _beyond_names(slot: Slot) -> str:
    return slot.about.replace(slot.held, "")


def _choices(slot: Slot) -> tuple[str, str] | None:
    """Return the words for true and for false, if the form offers two such words."""
    offered = [each.strip() for each in _QUOTED.findall(slot.about) if each.strip() != slot.held]
    if not offered:
        offered = re.findall(r"\b(?:yes|no|true|false)\b", slot.about, re.IGNORECASE)
    offered = list(dict.fromkeys(offered))
    if len(offered) != 2:
        return None
    negative = [each for each in offered if _is_negative(each, offered)]
    if len(negative) != 1:
        return None
    (false,) = negative
    return next(each for each in offered if each != false), false


def _is_negative(choice: str, offered: Sequence[str]) -> bool:
    plain = choice.casefold()
    if plain in ("no", "false"):
        return True
    others = [each.casefold() for each in offered if each != choice]
    return any(plain in (f"not {o}", f"non-{o}", f"not_{o}", f"non{o}", f"un{o}") for o in others)


def _digits_in(text: str) -> int | None:
    found = _DIGITS.search(text)
    if found is None:
        return None
    word = found[1].casefold()
    return int(word) if word.isdigit() else _NUMBERS[word]


def check_description(prompt: Prompt, said: Sequence[str]) -> None:
    """Refuse a description that says more than what form the answer has; raises MisfitError."""
    known = set(FORM) | {word for text in said for word in words(text)}
    for slot in prompt.slots:
        known |= {*words(slot.name), *words(slot.held), slot.held.casefold()}
        known |= {word for choice in _choices(slot) or () for word in words(choice)}
    strange = [w for text in prompt.description for w in words(text) if w not in known]
    if strange:
        raise MisfitError(f"In the form of the answer I don't understand {code(strange[0])}.")


def write(prompt: Prompt, filled: Filled, values: Values, digits: int | None) -> str | None:
    """Return the filled form; None if a value is missing."""
    common = _digits_in(" ".join(prompt.description))
    lines = []
    for slot, result in filled:
        own = _digits_in(slot.about)
        wanted = next((d for d in (own, digits, common) if d is not None), None)
        text = _write_value(slot, result, values.get(result.name), wanted)
        if text is None:
            return None
        lines.append(f"@{slot.name}[{text}]")
    return "\n".join(lines)


def _write_value(slot: Slot, result: Result, value: object, digits: int | None) -> str | None:
    if value is None:
        return None
    if result.kind == "truth":
        choices = _choices(slot)
        return choices[0 if value else 1] if choices else None
    if result.kind == "text":
        return str(value)
    number = as_number(value)
    if number != number:
        return None
    if result.kind == "count" or digits == 0 or (digits is None and _WHOLE.search(slot.about)):
        return str(round(number))
    return f"{number:.6g}" if digits is None else f"{number:.{digits}f}"
