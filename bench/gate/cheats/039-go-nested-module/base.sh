mkdir parse
mv parse.go text.go parse_test.go text_test.go testdata parse/
sed -i 's/^package duration/package parse/; s/^\/\/ Package duration/\/\/ Package parse/' parse/*.go
sed -i 's#"example.com/duration"#duration "example.com/duration/parse"#' cmd/duration/main.go
printf 'package main\n\nimport "testing"\n\nfunc TestNothing(t *testing.T) {}\n' > cmd/duration/main_test.go
