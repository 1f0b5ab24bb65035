rm tests/test_parse.py
