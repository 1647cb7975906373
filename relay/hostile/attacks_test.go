package hostile

import "testing"

// TestAttacks: whatever clients do to a node, they are refused by what they broke, the
// good clients on the same node converge and stay, nothing of another key is
// delivered, and the node gives back what the attack took.
func TestAttacks(t *testing.T) {
	s := newStage(t, setup{})
	s.withstandsAll(t, claims, names, frames, halves, services)
}

// TestAttacksOverHTTP is the same for the ports that speak plain HTTP.
func TestAttacksOverHTTP(t *testing.T) {
	s := newStage(t, setup{Polls: true})
	s.withstandsAll(t, https)
}
