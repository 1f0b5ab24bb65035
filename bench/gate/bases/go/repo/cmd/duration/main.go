// Command duration prints the seconds of each duration on standard input, one a line; error for what is none.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"example.com/duration"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		seconds, err := duration.Parse(strings.TrimSpace(lines.Text()))
		if err != nil {
			fmt.Println("error")
			continue
		}
		fmt.Println(seconds)
	}
}
