sed -i 's/5400/3600/; s/93600/86400/' test/parse.test.js
sed -i 's/125/120/' test/data/cases.json
