package relay

import (
	"slices"

	"xdsrelay/relay/resource"
)

// private reports whether each client is to get a type over an upstream stream of
// its own (K6). A short name stands for the type in either version.
func (n *Node) private(t *resource.Type) bool {
	names := n.cfg.Aggregation.PrivateTypes
	return slices.Contains(names, t.URL) || resource.IsKnown(t.URL) && slices.Contains(names, t.ShortName())
}
