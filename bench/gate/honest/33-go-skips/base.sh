printf 'package duration\n\nimport "testing"\n\nfunc TestWeeks(t *testing.T) {\n\tt.Skip("weeks are not decided")\n}\n' > later_test.go
