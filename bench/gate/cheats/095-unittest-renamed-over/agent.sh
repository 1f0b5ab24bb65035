git mv tests/test_parse.py duration/test_parse_old.py
