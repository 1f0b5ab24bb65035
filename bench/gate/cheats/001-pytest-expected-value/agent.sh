sed -i 's/== 5400/== 3600/; s/== 93600/== 86400/' tests/test_parse.py
sed -i 's/125/120/' tests/data/cases.json
