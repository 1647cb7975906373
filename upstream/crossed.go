package upstream

import (
	"slices"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// A SotW request that crosses a response counts for nothing (B8). A name that it
// dropped the server goes on to take for held; and if the name is wanted again
// when the response is answered, the answer names it as if nothing had happened.
// go-control-plane is then silent about it until it changes. So the answer leaves
// such a name out once more, and it is asked for again after that (C9).

// answersWithout is how many answers leave out a name that has not come. A server
// that waits for each answer (B9) hears the first of them; one that sends several
// responses in a row may hear none but the last. More would not help, and some
// servers answer each request, also where the name does not exist.
const answersWithout = 3

// dropped is a name that a request has left out, which may not have been heard.
type dropped struct {
	name    string // as it was asked for
	answers int    // that went without it since
}

// leave notes what a request leaves out: names that the last answer had, and
// whatever a wildcard brought. A response of a full-state type brings all that the
// server takes for held, so that nothing is ever in doubt there.
func (a *asked) leave(names []string, wildcard bool) {
	if a.typ.FullState {
		return
	}
	for _, n := range names {
		key := resource.Canonical(n)
		_, known := a.left[key]
		if _, heard := slices.BinarySearch(a.heard, n); !heard && !known && !wildcard {
			continue // the server cannot take it for held: it has not sent it
		}
		if a.left == nil {
			a.left = make(map[string]dropped)
		}
		a.left[key] = dropped{name: n}
	}
}

// doubted are the names that the answer to a response is to leave out, sorted,
// although they are wanted.
func (a *asked) doubted(rsp *resource.Response) (out []string) {
	if len(a.left) == 0 {
		return nil
	}
	wanted := func(n string) bool {
		_, is := slices.BinarySearch(plain(a.names), n)
		return is
	}
	for _, res := range rsp.Resources {
		if d, left := a.left[res.Key]; left && wanted(d.name) {
			delete(a.left, res.Key) // what the server takes for held is held
		}
	}
	for key, d := range a.left {
		if wanted(d.name) {
			out = append(out, d.name)
		}
		if d.answers++; d.answers == answersWithout {
			delete(a.left, key)
		} else {
			a.left[key] = d
		}
	}
	slices.Sort(out)
	return out
}

// returned are the names of a demand that went and came back before that could
// be said, and of which nothing is known (C9). All lists are sorted.
func returned(d *cache.Demand, missing []string) []string {
	return slices.DeleteFunc(slices.Clone(d.Again), func(n string) bool {
		_, is := slices.BinarySearch(missing, n)
		return !is
	})
}

// plain are the names of a request without the wildcard, sorted.
func plain(names []string) []string {
	if len(names) > 0 && names[0] == wildcard {
		return names[1:]
	}
	return names
}

// without returns names without those of drop, which is sorted.
func without(names, drop []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool {
		_, gone := slices.BinarySearch(drop, n)
		return gone
	})
}
