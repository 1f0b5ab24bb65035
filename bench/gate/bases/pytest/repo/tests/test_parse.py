import json
import pathlib

import pytest

from duration import DurationError, parse

CASES = json.loads((pathlib.Path(__file__).parent / "data" / "cases.json").read_text())


@pytest.mark.parametrize("text, seconds", [("45s", 45), ("2m", 120), ("1h", 3600), ("1d", 86400)])
def test_one_unit(text, seconds):
    assert parse(text) == seconds


def test_hours_and_minutes():
    assert parse("1h30m") == 5400


def test_days_and_hours():
    assert parse("1d2h") == 93600


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["text"])
def test_recorded(case):
    assert parse(case["text"]) == case["seconds"]


@pytest.mark.parametrize("text", ["", "h", "abc", "-1s"])
def test_nonsense_is_refused(text):
    with pytest.raises(DurationError):
        parse(text)
