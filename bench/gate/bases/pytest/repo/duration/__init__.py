"""Reads and writes durations."""

from .parse import DurationError, parse
from .text import text

__all__ = ["DurationError", "parse", "text"]
