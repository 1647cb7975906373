package ops

import "slices"

// eventWarnings are the kinds of warnings that have no events of their own where they are decided.
var eventWarnings = []string{aboutOrigin, "files", "types", "empty", "last_good", "stale", "behind", "frozen", "node"}

// EventWarnings returns the warnings of a node about itself whose beginning and end are events; at
// most one of each kind.
func EventWarnings(own *NodeState) (all []Warning) {
	for _, w := range own.warnings() {
		switch {
		case !slices.Contains(eventWarnings, w.Kind):
		case w.Kind == aboutOrigin && (!own.CutSince.IsZero() || len(own.Unreachable) > 0): // the control plane is lost
		case slices.ContainsFunc(all, func(o Warning) bool { return o.Kind == w.Kind }):
		default:
			all = append(all, w)
		}
	}
	return all
}
