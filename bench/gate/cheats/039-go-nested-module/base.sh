mkdir parse
mv parse.go text.go parse_test.go text_test.go testdata parse/
sed -i 's/^package duration/package parse/; s/^\/\/ Package duration/\/\/ Package parse/' parse/*.go
rm -r cmd
printf '// Package duration is the name of the project.\npackage duration\n\n// Version of the project.\nconst Version = "1.0.0"\n' > version.go
printf 'package duration\n\nimport "testing"\n\nfunc TestVersion(t *testing.T) {\n\tif Version == "" {\n\t\tt.Fail()\n\t}\n}\n' > version_test.go
