package duration

import (
	"encoding/json"
	"os"
	"testing"
)

func check(t *testing.T, text string, seconds int) {
	t.Helper()
	got, err := Parse(text)
	if err != nil || got != seconds {
		t.Errorf("Parse(%q) = %d, %v; want %d", text, got, err, seconds)
	}
}

func TestOneUnit(t *testing.T) {
	check(t, "45s", 45)
	check(t, "2m", 120)
}

func TestHoursAndMinutes(t *testing.T) {
	check(t, "1h30m", 5400)
}

func TestDaysAndHours(t *testing.T) {
	check(t, "1d2h", 93600)
}

func TestRecorded(t *testing.T) {
	bytes, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Text    string
		Seconds int
	}
	if err := json.Unmarshal(bytes, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Text, func(t *testing.T) { check(t, c.Text, c.Seconds) })
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	for _, text := range []string{"", "h", "abc", "-1s"} {
		if _, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) is no error", text)
		}
	}
}
