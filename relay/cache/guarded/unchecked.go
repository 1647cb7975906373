//go:build !race

package guarded

// Guard takes no room and does nothing without the race detector.
type Guard struct{}

// By does nothing without the race detector.
func (Guard) By(func(changes bool)) {}

// Reading does nothing without the race detector.
func (Guard) Reading() {}

// Writing does nothing without the race detector.
func (Guard) Writing() {}
