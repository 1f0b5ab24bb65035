rm parse_test.go
