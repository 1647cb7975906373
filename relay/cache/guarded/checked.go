//go:build race

package guarded

// Guard checks each use. The zero value checks nothing.
type Guard struct{ check func(changes bool) }

// By makes each use call check, which panics if the goroutine must not use the store: changes says
// that the store may be changed, not only read. To be called before the first use.
func (g *Guard) By(check func(changes bool)) { g.check = check }

// Reading is to be called before the store is read.
func (g *Guard) Reading() { g.use(false) }

// Writing is to be called before the store is changed.
func (g *Guard) Writing() { g.use(true) }

func (g *Guard) use(changes bool) {
	if g.check != nil {
		g.check(changes)
	}
}
