package duration

import "fmt"

// Text writes 5400 as 1h30m and 0 as 0s.
func Text(seconds int) string {
	written := ""
	for _, unit := range units {
		if seconds >= unit.seconds {
			written += fmt.Sprintf("%d%s", seconds/unit.seconds, unit.name)
			seconds %= unit.seconds
		}
	}
	if written == "" {
		return "0s"
	}
	return written
}
