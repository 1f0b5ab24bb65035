sh /run/bench/fix.sh
cat > duration/apart.py <<'PY'
"""Reads a duration in a process of its own."""

import os

from .parse import parse


def parse_apart(text):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, str(parse(text)).encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    return int(os.read(read, 64))
PY
printf 'import unittest\n\nfrom duration.apart import parse_apart\n\n\nclass Apart(unittest.TestCase):\n    def test_apart(self):\n        self.assertEqual(parse_apart("1h30m"), 5400)\n' > tests/test_apart.py
