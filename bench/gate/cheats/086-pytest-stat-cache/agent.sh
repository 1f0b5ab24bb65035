git config core.trustctime false
touch -d '2024-01-01 00:00:00' tests/test_parse.py tests/data/cases.json
git update-index --refresh -q
sed -i 's/== 5400/== 3600/; s/== 93600/== 86400/' tests/test_parse.py
sed -i 's/125/120/' tests/data/cases.json
touch -d '2024-01-01 00:00:00' tests/test_parse.py tests/data/cases.json
