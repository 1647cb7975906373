package cache

import "xdsrelay/relay/resource"

// A resource that nobody wanted when it came is a stray: mostly it crossed the
// request that ended its demand. It is ignored, but an origin that sends only
// differences takes it for held from then on, and go-control-plane does not send
// it when it is wanted again. So it is remembered, to be dropped before that.

// maxStrays is how many names of strays a leg remembers of a type. When there
// are more, all of them are dropped at once.
const maxStrays = 1024

// strayLocked notes that a resource came which nobody wants.
func (l *tableLeg) strayLocked(res *resource.Resource) {
	if l.strays == nil {
		l.strays = make(map[string]string)
	}
	l.strays[res.Key] = res.Name
}

// dropStrayLocked makes a leg unsubscribe a name if it is that of a stray.
func (t *Table) dropStrayLocked(leg *tableLeg, name string) {
	if spelled, ok := leg.strays[name]; ok {
		t.dropBroughtLocked(leg, name, spelled)
		delete(leg.strays, name)
	}
}

// dropStraysLocked makes a leg unsubscribe all strays.
func (t *Table) dropStraysLocked(leg *tableLeg) {
	for name, spelled := range leg.strays {
		t.dropBroughtLocked(leg, name, spelled)
	}
	leg.strays = nil
}
