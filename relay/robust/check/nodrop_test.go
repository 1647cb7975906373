package check

import (
	"testing"

	"xdsrelay/relay/robust/record"
)

// TestNoDrop: a stream that ends while its node is up is seen; one that ends with
// its node, or because the client wants it, is not.
func TestNoDrop(t *testing.T) {
	const of = "NoDrop"
	mustFind(t, forge(t, of, start(ended(1))), "client d lost its stream to n")
	mustFind(t, forge(t, of, start(at(record.NodeDown, "m"), ended(1))), "client d lost its stream to n")
	mustBeFine(t, forge(t, of, start(at(record.NodeDown, "n"), ended(1), ended(2))))
	mustBeFine(t, forge(t, of, start(at(record.NodeDown, "n"), at(record.NodeUp, "n"), ended(1)))) // told late
	mustFind(t, forge(t, of, start(at(record.NodeDown, "n"), ended(1), at(record.NodeUp, "n"), opened("d", 3, "n"), ended(3))), "client d lost its stream to n")
	own := ended(1)
	own.Own = true
	mustBeFine(t, forge(t, of, start(own)))

	// No answer yet, and none can be given.
	unserved := ended(3)
	unserved.Unserved = true
	mustBeFine(t, forge(t, of, start(opened("d", 3, "m"), unserved)))
	mustFind(t, forge(t, of, start(opened("d", 3, "m"), removed(3, endpointType, "never"), unserved)), "client d lost its stream to m")
}
