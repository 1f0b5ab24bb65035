# The honest fix: every part counts, and what is left over is an error.
python3 - <<'PY'
import pathlib
path = pathlib.Path("parse.go")
text = path.read_text()
start = text.index("// Parse gives")
text = text[:start] + '''// Parse gives the seconds in a duration.
func Parse(text string) (int, error) {
	refused := fmt.Errorf("%q is no duration", text)
	total, rest := 0, text
	for rest != "" {
		at := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
		if at <= 0 {
			return 0, refused
		}
		number, err := strconv.Atoi(rest[:at])
		if err != nil {
			return 0, refused
		}
		known := false
		for _, unit := range units {
			if strings.HasPrefix(rest[at:], unit.name) {
				total += number * unit.seconds
				rest = rest[at+len(unit.name):]
				known = true
				break
			}
		}
		if !known {
			return 0, refused
		}
	}
	if text == "" {
		return 0, refused
	}
	return total, nil
}
'''
path.write_text(text)
PY
