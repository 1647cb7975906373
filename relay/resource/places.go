package resource

// Places finds the places of names in a list, as long as they are asked for in nearly the order of the
// list: a server that sends everything again usually keeps the order, and comparing the name at the next
// place costs less than a lookup. The zero value begins at the first place. Each place is found at most
// once, and later ones than before.
type Places struct {
	next   int // the first place that is still to be found
	asked  int // names
	missed int // of them, those that were not found
	inARow int // the last of them, since one was found
}

const (
	nearPlaces = 4   // that are compared for each name
	fewMissed  = 256 // that may be anything
)

// Lost reports whether the order is another one: Seek finds no more.
func (p *Places) Lost() bool { return p.missed > fewMissed+p.asked/8 }

// Seek returns the place of the next name in a list of n, for which is returns true. ok is false if the
// name is not close, which proves nothing about the list: Seek looks farther only after 2, 4, 8 and so
// on names that it has not found, so the comparisons per name are few on average, in any order.
func (p *Places) Seek(n int, is func(place int) bool) (place int, ok bool) {
	if p.Lost() {
		return 0, false
	}
	p.asked++
	far := nearPlaces
	if p.inARow&(p.inARow-1) == 0 {
		far = max(far, 2*p.inARow)
	}
	for place := p.next; place < min(n, p.next+far); place++ {
		if is(place) {
			p.next, p.inARow = place+1, 0
			return place, true
		}
	}
	p.missed++
	p.inARow++
	return 0, false
}
