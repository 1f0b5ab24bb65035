"""Durations as people write them: `45s`, `2m`, `1h30m`, `1d2h`."""

import re

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
PART = re.compile(r"(\d+)([smhd])")


class DurationError(ValueError):
    """The text is no duration."""


def parse(text):
    """Seconds in a duration."""
    found = PART.match(text)
    if found is None:
        raise DurationError(f"{text!r} is no duration")
    return int(found[1]) * UNITS[found[2]]
