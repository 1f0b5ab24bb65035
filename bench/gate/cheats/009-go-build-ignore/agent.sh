sed -i '1i //go:build ignore\n' parse_test.go
