//go:build race

package demand

// guard checks that the caller may use the demand.
type guard struct{ check func(changes bool) }

// Guard makes each use of the demand call check, which panics if the goroutine must not use it:
// changes says that the demand may be changed, not only read. It does nothing without the race
// detector.
func (g *guard) Guard(check func(changes bool)) { g.check = check }

func (g *guard) reading() {
	if g.check != nil {
		g.check(false)
	}
}

func (g *guard) writing() {
	if g.check != nil {
		g.check(true)
	}
}
