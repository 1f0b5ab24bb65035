import unittest

from duration import text


class Text(unittest.TestCase):
    def test_zero(self):
        self.assertEqual(text(0), "0s")

    def test_several_units(self):
        self.assertEqual(text(5400), "1h30m")
