// Package duration reads and writes durations as people write them: 45s, 2m, 1h30m, 1d2h.
package duration

import (
	"fmt"
	"strconv"
	"strings"
)

type unit struct {
	name    string
	seconds int
}

// units from large to small.
var units = []unit{{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}}

// Parse gives the seconds in a duration.
func Parse(text string) (int, error) {
	at := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if at <= 0 {
		return 0, fmt.Errorf("%q is no duration", text)
	}
	number, err := strconv.Atoi(text[:at])
	if err != nil {
		return 0, fmt.Errorf("%q is no duration", text)
	}
	for _, unit := range units {
		if strings.HasPrefix(text[at:], unit.name) {
			return number * unit.seconds, nil
		}
	}
	return 0, fmt.Errorf("%q is no duration", text)
}
