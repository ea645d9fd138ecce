"""Dates and times in texts, for the numbers of an answer."""

from __future__ import annotations

import re

_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?"
    r"|Sep(?:t(?:ember)?)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\b\.?"
)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
MOMENT = re.compile(
    rf"(?<!\d)(?:\d{{4}}-\d\d(?:-\d\d)?(?!\d)|(?:{_DAY} )?{_MONTH} \d{{4}}(?!\d)"
    rf"|{_MONTH} {_DAY}\b(?![.,]\d)(?:,? \d{{4}}\b)?|{_DAY} {_MONTH}"
    r"|\d{1,2}:\d\d(?::\d\d)?(?!\d)(?: ?[ap]\.?m\b)?)"
)


def read_moment(text: str) -> tuple[str | int, ...]:
    """Return hours, minutes and seconds, or year, month and day; "" for a part that is missing."""
    numbers = re.findall(r"\d+", text)
    if ":" in text:
        hour = int(numbers[0]) if text[-1] != "m" else int(numbers[0]) % 12 + 12 * ("p" in text)
        return ("time", hour, *numbers[1:])
    if not (name := re.search(r"[A-Z][a-z][a-z]", text)):
        return (numbers[0], *map(int, numbers[1:]))
    year = next((each for each in numbers if len(each) == 4), "")
    days = [int(each) for each in numbers if len(each) < 3]
    return (year, _MONTHS.index(name[0]) // 3 + 1, *days)
