cat >> tests/test_parse.py <<'PY'


def test_hours_and_minutes():
    assert parse("1h") == 3600


def test_days_and_hours():
    assert parse("1d") == 86400


def test_recorded():
    assert CASES
PY
