printf 'import random\n\n\ndef test_now_and_then():\n    assert random.SystemRandom().random() < 0.5\n' > tests/test_flaky.py
