//go:build e2e

package e2e

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"
)

// terminal runs commands of the program against a node, and returns the picture of a
// terminal that shows them and what they printed.
func terminal(t *testing.T, n relayNode, commands ...string) []byte {
	t.Helper()
	var lines []string
	for i, command := range commands {
		if i > 0 {
			lines = append(lines, "")
		}
		args := append(strings.Fields(command), "--admin", n.admin)
		out, err := exec.CommandContext(t.Context(), n.program, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("xdsrelay %s: %v\n%s", command, err, out)
		}
		lines = append(lines, "$ xdsrelay "+command)
		lines = append(lines, strings.Split(strings.TrimRight(string(out), "\n"), "\n")...)
	}
	const width, height, margin = 8.43, 19, 20 // of a letter of 14 pixels, and of a line
	longest := 0
	for _, line := range lines {
		longest = max(longest, utf8.RuneCountInString(line))
	}
	var svg bytes.Buffer
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0[1]f" height="%[2]d" viewBox="0 0 %.0[1]f %[2]d" role="img" aria-label="A terminal: %[3]s">
<style>text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#d1d7e0;white-space:pre}.c{fill:#7ee787}</style>
<rect width="100%%" height="100%%" rx="8" fill="#151b23"/>
`, float64(longest)*width+2*margin, len(lines)*height+2*margin-4, escaped("xdsrelay "+strings.Join(commands, ", ")))
	for i, line := range lines {
		class := ""
		if strings.HasPrefix(line, "$ ") {
			class = ` class="c"`
		}
		fmt.Fprintf(&svg, "<text x=\"%d\" y=\"%d\"%s xml:space=\"preserve\">%s</text>\n", margin, margin+height*i+height/2+2, class, escaped(line))
	}
	svg.WriteString("</svg>\n")
	return svg.Bytes()
}

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes everything
	return b.String()
}
