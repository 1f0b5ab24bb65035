"""Prints the seconds of each duration on standard input, one a line; `error` for what is none."""

import sys

from . import DurationError, parse


def main():
    for line in sys.stdin:
        try:
            print(parse(line.strip()))
        except DurationError:
            print("error")


if __name__ == "__main__":
    main()
