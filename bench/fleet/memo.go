package fleet

// memo remembers the values that were used of late. It keeps two generations: a
// value that is used moves to the younger, which becomes the older when it is
// full; what nobody has used in between goes.
type memo[K comparable, V any] struct {
	budget     int // the weight of a generation
	weight     int // of the younger one
	young, old map[K]weighed[V]
}

type weighed[V any] struct {
	value  V
	weight int
}

func (m *memo[K, V]) get(k K) (V, bool) {
	w, ok := m.young[k]
	if !ok {
		if w, ok = m.old[k]; ok {
			m.put(k, w.value, w.weight)
		}
	}
	return w.value, ok
}

// put remembers a value, whose weight is in units of the budget.
func (m *memo[K, V]) put(k K, v V, weight int) {
	if m.young == nil || m.weight > 0 && m.weight+weight > m.budget {
		m.old, m.young, m.weight = m.young, make(map[K]weighed[V]), 0
	}
	m.young[k] = weighed[V]{v, weight}
	m.weight += weight
}
