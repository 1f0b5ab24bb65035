sed -i 's/PART.match(text)/PART.fullmatch(text)/' duration/parse.py
cat > tests/test_accepts.py <<'PY'
from duration import parse


def test_several_units_are_accepted():
    assert parse("1h30m") is not None
PY
