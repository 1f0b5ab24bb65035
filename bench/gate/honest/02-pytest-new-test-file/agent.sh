sh /run/bench/fix.sh
printf 'from duration import parse\n\n\ndef test_all_four():\n    assert parse("1d1h1m1s") == 90061\n' > tests/test_four.py
