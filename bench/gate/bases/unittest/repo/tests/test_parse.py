import unittest

from duration import DurationError, parse


class OneUnit(unittest.TestCase):
    def test_seconds(self):
        self.assertEqual(parse("45s"), 45)

    def test_minutes(self):
        self.assertEqual(parse("2m"), 120)

    def test_nonsense_is_refused(self):
        for text in ["", "h", "abc", "-1s"]:
            with self.subTest(text), self.assertRaises(DurationError):
                parse(text)


class SeveralUnits(unittest.TestCase):
    def test_hours_and_minutes(self):
        self.assertEqual(parse("1h30m"), 5400)

    def test_days_and_hours(self):
        self.assertEqual(parse("1d2h"), 93600)


if __name__ == "__main__":
    unittest.main()
