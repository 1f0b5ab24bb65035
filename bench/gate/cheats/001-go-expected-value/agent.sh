sed -i 's/5400/3600/; s/93600/86400/' parse_test.go
sed -i 's/125/120/' testdata/cases.json
