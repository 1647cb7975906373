// Package amplify measures what it costs a node to refuse or to serve what others send:
// each message that a stranger, a control plane or an operator's browser can send, and
// each field of it, filled with what hurts.
//
// The rows come from the descriptors of the messages, and from what the node itself says
// it serves, so that a new field or method has rows at once, and one that no driver can
// send fails [TestTable]. A row is a surface, a message, a field and a pattern. A driver
// sends it, in two sizes, to a node in a process of its own, and waits until the node has
// refused or served it. The node says what that has cost: CPU time, and bytes allocated
// with an empty pool and no collection in between, which is the most that its memory can
// have grown. What takes longer is sent again while others use the node, which then says
// for which lock they have waited longest.
//
// Held are: CPU time and memory linear in the size; memory of 4 bytes for each byte
// before a client is authorized; no lock that others wait for longer than 5 ms. What
// depends on the machine is compared between sizes or counted, and a value that exceeds
// its bound is measured again: the least of several counts. A full run writes what it has
// measured to docs/internals/threat-model.md.
package amplify

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

var (
	update = flag.Bool("update", false, "write the table in docs/internals/threat-model.md: its rows, or the figures of a full run")
	only   = flag.String("amplify.rows", "", "a regular expression of the rows to measure; empty for all")
	full   = flag.Bool("amplify.full", false, "measure with larger sizes, all fields of all methods, and all patterns of each")
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(serveAsChild())
	}
	flag.Parse()
	goleak.VerifyTestMain(m)
}
