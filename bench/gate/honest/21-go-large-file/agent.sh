sh /run/bench/fix.sh
mkdir docs
seq 1 400000 > docs/table.txt
