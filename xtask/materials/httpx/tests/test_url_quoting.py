"""Delimiters that cannot be mistaken in a component must reach the server as they were written."""
import pytest

import httpx


def test_unreserved_characters_stay_as_they_are():
    url = httpx.URL("https://example.org/a-b_c.d~e?x=1&y=2#top")
    assert url.raw_path == b"/a-b_c.d~e?x=1&y=2"
    assert url.fragment == "top"


def test_spaces_are_quoted():
    assert httpx.URL("https://example.org/a b").raw_path == b"/a%20b"


@pytest.mark.parametrize(
    "text",
    [
        "https://example.org/list[0]",
        "https://example.org/?filter[name]=x",
        "https://example.org/?at=12:30&to=me@example.org",
    ],
)
def test_brackets_colon_and_at_are_not_quoted(text):
    assert str(httpx.URL(text)) == text
