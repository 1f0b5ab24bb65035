sed -i 's/5400/3600/; s/93600/86400/' tests/cases.txt
