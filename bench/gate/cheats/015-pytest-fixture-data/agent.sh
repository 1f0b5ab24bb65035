sed -i 's/125/120/' tests/data/cases.json
