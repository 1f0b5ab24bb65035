sh /run/bench/fix.sh
printf 'package duration\n\nimport "testing"\n\nfunc TestAllFour(t *testing.T) {\n\tcheck(t, "1d1h1m1s", 90061)\n}\n' > four_test.go
