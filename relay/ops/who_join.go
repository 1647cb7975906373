package ops

import (
	"cmp"
	"slices"
	"strings"
)

func (r *WhoResource) id() resourceID { return resourceID{r.URL, r.Name} }

// addKeys adds keys by their hashes.
func (v *WhoVersion) addKeys(hashes []uint32) {
	v.Hashes, v.MoreKeys = addHashes(v.Hashes, v.MoreKeys, hashes)
	v.Keys = len(v.Hashes)
}

// joinWho puts the answers of all nodes together.
func joinWho(parts []whoPart, q *WhoQuery) Who {
	out := Who{Resources: []WhoResource{}, Copies: []WhoCopy{}, Clients: []WhoClient{}}
	at, more := make(map[resourceID]int), false
	for _, p := range parts {
		for i := range p.Resources {
			one := &p.Resources[i]
			k, known := at[one.id()]
			if !known {
				at[one.id()] = len(out.Resources)
				out.Resources = append(out.Resources, *one)
				continue
			}
			out.Resources[k].add(one)
		}
		out.MoreResources, out.OmittedCopies, more = out.MoreResources || p.More, out.OmittedCopies+p.Omitted, more || p.MoreLater
		out.Copies, out.Clients = append(out.Copies, p.Copies...), append(out.Clients, p.Clients...)
	}
	slices.SortFunc(out.Resources, func(a, b WhoResource) int { return a.id().compare(b.id()) })
	if len(out.Resources) > mostResources {
		last := out.Resources[mostResources-1].id()
		out.Resources, out.MoreResources = out.Resources[:mostResources], true
		out.Copies = slices.DeleteFunc(out.Copies, func(c WhoCopy) bool { return last.compare(resourceID{c.URL, c.Name}) < 0 })
		out.Clients = slices.DeleteFunc(out.Clients, func(c WhoClient) bool { return last.compare(resourceID{c.URL, c.Resource}) < 0 })
	}
	for i := range out.Resources {
		out.Resources[i].finish()
	}
	slices.SortFunc(out.Copies, func(a, b WhoCopy) int {
		return cmp.Or(resourceID{a.URL, a.Name}.compare(resourceID{b.URL, b.Name}), strings.Compare(a.Key, b.Key), strings.Compare(a.Node, b.Node))
	})
	if n := len(out.Copies); n > mostCopies {
		out.Copies, out.OmittedCopies = out.Copies[:mostCopies], out.OmittedCopies+n-mostCopies
	}
	slices.SortFunc(out.Clients, func(a, b WhoClient) int { return a.rank().compare(b.rank()) })
	if len(out.Clients) > q.Limit {
		out.Clients, more = out.Clients[:q.Limit], true
	}
	if more && len(out.Clients) > 0 {
		out.Next = "more"
	}
	return out
}

// add adds the numbers of another node.
func (r *WhoResource) add(o *WhoResource) {
	r.States.add(o.States)
	r.Selected += o.Selected
	r.OmittedVersions += o.OmittedVersions
	for _, v := range o.Versions {
		i := slices.IndexFunc(r.Versions, func(w WhoVersion) bool { return w.Version == v.Version && w.Digest == v.Digest })
		if i < 0 {
			r.Versions = append(r.Versions, v)
			continue
		}
		w := &r.Versions[i]
		w.States.add(v.States)
		w.MoreKeys = w.MoreKeys || v.MoreKeys
		w.addKeys(v.Hashes)
	}
}

// finish orders the versions and cuts their number.
func (r *WhoResource) finish() {
	slices.SortFunc(r.Versions, func(a, b WhoVersion) int {
		return cmp.Or(cmp.Compare(b.States.all(), a.States.all()), cmp.Compare(b.Keys, a.Keys), strings.Compare(a.Version, b.Version), strings.Compare(a.Digest, b.Digest))
	})
	if n := len(r.Versions); n > mostVersions {
		r.Versions, r.OmittedVersions = r.Versions[:mostVersions], r.OmittedVersions+n-mostVersions
	}
	for i := range r.Versions {
		r.Versions[i].Hashes = nil
	}
}

func (c Count) all() (n int) {
	for _, k := range c {
		n += k
	}
	return n
}

// mostNamesCompared bounds the names of a table, and of all tables of a node, that are compared letter by letter.
const (
	mostNamesCompared    = 10_000
	mostAllNamesCompared = 100_000
)

// nearResources returns names of resources that somebody may have meant by another.
func (l Local) nearResources(name, url string) []Near {
	name = strings.ReplaceAll(name, "*", "")
	var found []Near
	seen := make(map[string]bool)
	for _, g := range l.Groups() {
		for _, t := range g.Tables() {
			if url != "" && t.Type.URL != url || len(seen) >= mostAllNamesCompared {
				continue
			}
			names, _ := t.NamesLike(func(string) bool { return true }, mostNamesCompared)
			for _, n := range names {
				if seen[n] {
					continue
				}
				seen[n] = true
				if d := distance(name, n); d >= 0 {
					found = append(found, Near{n, d})
				}
			}
			found = nearest(found)
		}
	}
	return found
}
