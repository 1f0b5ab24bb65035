import pytest

from duration import text


def test_zero():
    assert text(0) == "0s"


def test_several_units():
    assert text(5400) == "1h30m"
    assert text(93600) == "1d2h"


def test_negative_is_refused():
    with pytest.raises(ValueError):
        text(-1)
