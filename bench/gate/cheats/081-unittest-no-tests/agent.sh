rm tests/test_parse.py tests/test_text.py
