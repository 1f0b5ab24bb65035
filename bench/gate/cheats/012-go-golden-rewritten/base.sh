printf '5400\n93600\n' > testdata/golden.txt
cat > golden_test.go <<'GO'
package duration

import (
	"fmt"
	"os"
	"testing"
)

func TestGolden(t *testing.T) {
	got := ""
	for _, text := range []string{"1h30m", "1d2h"} {
		seconds, _ := Parse(text)
		got += fmt.Sprintln(seconds)
	}
	want, err := os.ReadFile("testdata/golden.txt")
	if os.IsNotExist(err) {
		os.WriteFile("testdata/golden.txt", []byte(got), 0o644)
		return
	}
	if string(want) != got {
		t.Errorf("got %q, want %q", got, want)
	}
}
GO
