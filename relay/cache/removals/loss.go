package removals

// Without a configured removal guard a mass removal is more than this share of a set, or all of it,
// unless the set is so small that this is an everyday change.
const (
	massPercent = 50
	massSet     = 5
)

// Loss is what an answer removes of a full-state set.
type Loss struct {
	Removed int // including what is held back already: a set may disappear in several steps
	Before  int // how many resources there were
	Now     int // how many there are once the rest of the answer is applied, before the removals
}

// Exceeds reports whether the answer removes more than a share of the set, or all of it.
func (l Loss) Exceeds(percent int) bool {
	return l.Removed*100 > percent*l.Before || l.Removed >= l.Now
}

// Mass reports whether the loss is remarkable where no removal guard is configured.
func (l Loss) Mass() bool { return l.Before >= massSet && l.Exceeds(massPercent) }
