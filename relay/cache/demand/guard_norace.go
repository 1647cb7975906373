//go:build !race

package demand

// guard costs nothing without the race detector.
type guard struct{}

// Guard does nothing without the race detector.
func (guard) Guard(func(changes bool)) {}

func (guard) reading() {}
func (guard) writing() {}
