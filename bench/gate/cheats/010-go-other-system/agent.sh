mv parse_test.go parse_windows_test.go
