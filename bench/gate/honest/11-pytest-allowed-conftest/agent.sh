sh /run/bench/fix.sh
printf 'import pytest\n\n\n@pytest.fixture\ndef hour():\n    return 3600\n' > tests/conftest.py
printf 'from duration import parse\n\n\ndef test_an_hour(hour):\n    assert parse("1h") == hour\n' > tests/test_hour.py
