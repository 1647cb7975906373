package relay

import (
	"slices"

	"xdsrelay/relay/ops"
)

// running is the configuration of the node, to compare others with.
func (n *Node) running() ops.Running {
	return ops.Running{First: n.settings.first, Current: n.settings.inForce(), Effect: effectOf}
}

// effectOf moves the authorization rules among the fields that need a restart if they take effect
// with others of them, as a reload does.
func effectOf(live, restart []string) (l, r []string) {
	if !slices.ContainsFunc(restart, saysWhoClientsAre) {
		return live, restart
	}
	for _, field := range live {
		if field == "authorization.rules" || field == "authorization.allow_any" {
			restart = append(restart, field)
		} else {
			l = append(l, field)
		}
	}
	return l, restart
}
