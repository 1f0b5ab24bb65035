package duration

import "testing"

func TestText(t *testing.T) {
	for seconds, want := range map[int]string{0: "0s", 5400: "1h30m", 93600: "1d2h"} {
		if got := Text(seconds); got != want {
			t.Errorf("Text(%d) = %q, want %q", seconds, got, want)
		}
	}
}
