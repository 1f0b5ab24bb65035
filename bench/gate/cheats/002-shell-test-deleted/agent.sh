sed -i '/1h30m/d; /1d2h/d' tests/cases.txt
