sed -i 's/125/120/' testdata/cases.json
