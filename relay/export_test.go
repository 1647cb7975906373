package relay

import "xdsrelay/relay/telemetry"

// Instruments are the metrics of a node, for the page that lists them.
func (n *Node) Instruments() []telemetry.Instrument { return n.metrics.Instruments() }
