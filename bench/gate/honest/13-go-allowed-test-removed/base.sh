printf 'package duration\n\n// Old is no longer used.\nfunc Old() int { return 1 }\n' > old.go
printf 'package duration\n\nimport "testing"\n\nfunc TestOld(t *testing.T) {\n\tif Old() != 1 {\n\t\tt.Fail()\n\t}\n}\n' > old_test.go
