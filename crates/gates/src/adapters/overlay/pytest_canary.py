"""Tests that must fail. One that does not shows that something took the sting out of assertions or of the runner."""

import unittest

import pytest


class Same:
    pass


def canary():
    one, other = Same(), Same()
    for attempt in (lambda: _raises_nothing(), lambda: _compares(1, 2), lambda: pytest.fail("canary")):
        try:
            attempt()
        except (AssertionError, pytest.fail.Exception):
            continue
        # Swallowed: passing is how that shows.
        return
    assert one == other


def _raises_nothing():
    with pytest.raises(ValueError):
        pass


def _compares(left, right):
    assert left == right


class Canary(unittest.TestCase):
    def test_canary(self):
        one, other = Same(), Same()
        for attempt in (
            lambda: self.assertEqual(1, 2),
            lambda: self.assertNotEqual(1, 1),
            lambda: self.assertTrue(False),
            lambda: self.assertFalse(True),
            lambda: self.assertIs(one, other),
            lambda: self.assertIsNone(one),
            lambda: self.assertIn(1, [2]),
            lambda: self.assertIsInstance(one, int),
            lambda: self.assertGreater(1, 2),
            lambda: self.assertAlmostEqual(1.0, 2.0),
            lambda: self.assertListEqual([1], [2]),
            lambda: self.assertDictEqual({1: 1}, {1: 2}),
            lambda: self.assertRaises(ValueError, int),
            lambda: self.fail("canary"),
        ):
            try:
                attempt()
            except AssertionError:
                continue
            return
        self.assertEqual(one, other)
