sh /run/bench/fix.sh
rm old.go old_test.go
