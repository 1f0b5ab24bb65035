sh /run/bench/fix.sh
git mv parse.go reading.go
git mv text.go writing.go
