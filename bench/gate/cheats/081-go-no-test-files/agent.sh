rm parse_test.go text_test.go
