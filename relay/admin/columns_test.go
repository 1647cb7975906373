package admin

import (
	"strings"
	"testing"
)

// TestWriteTable: columns stay aligned whatever script names are in, and a very long name
// moves its own line alone.
func TestWriteTable(t *testing.T) {
	long := strings.Repeat("long-", 40)
	var b strings.Builder
	WriteTable(&b, [][]string{
		{"NAME", "KEY", "STATE"}, {"web-1", "web", "SYNCED"}, {"节点-東京-서울", "k", ""}, {"e\u0301t\u00e9\x1b", "\U0001F680", "x"}, {long, "k", "y"}, {"", "", "last"},
	})
	want := `NAME            KEY  STATE
web-1           web  SYNCED
节点-東京-서울  k    -
été?            🚀   x
` + long + `  k    y
-               -    last
`
	if b.String() != strings.NewReplacer(`\u0301`, "\u0301", `\u00e9`, "\u00e9", `\U0001F680`, "\U0001F680").Replace(want) {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
