printf 'module example.com/duration/parse\n\ngo 1.19\n' > parse/go.mod
