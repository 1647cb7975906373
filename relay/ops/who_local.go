package ops

import (
	"cmp"
	"hash/fnv"
	"net/url"
	"slices"
	"strings"

	"xdsrelay/fanout"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/redact"
)

// whoPart is the answer of one node.
type whoPart struct {
	Resources []WhoResource `json:"resources"`
	More      bool          `json:"more_resources,omitempty"`
	Copies    []WhoCopy     `json:"copies"`
	Omitted   int           `json:"copies_omitted,omitempty"`
	Clients   []WhoClient   `json:"clients"`
	MoreLater bool          `json:"more"`
}

// resourceID is a resource among all types.
type resourceID struct{ url, name string }

func (n resourceID) compare(o resourceID) int {
	return cmp.Or(strings.Compare(n.url, o.url), strings.Compare(n.name, o.name))
}

// whoSearch is a search on one node.
type whoSearch struct {
	q       *WhoQuery
	pattern pattern
	// chosen are the resources that the answer is about, if the pattern is no name.
	chosen map[resourceID]bool
	names  map[*cache.Table][]string
	more   bool

	resources map[resourceID]*whoTotal
	copies    map[copyOf]whoCount
	rows      []*WhoCopy
	omitted   int
	past      map[*cache.Table][]cache.Past
}

// whoTotal is a resource with what is needed to count its versions.
type whoTotal struct {
	WhoResource

	versions map[[2]string]*WhoVersion
}

// copyOf is a resource in a table.
type copyOf struct {
	table *cache.Table
	name  string
}

// whoCount is where the clients of a copy are counted; either is nil beyond the bounds of an answer.
type whoCount struct {
	row     *WhoCopy
	version *WhoVersion
	missing string // why there is no resource
}

// answerWho answers another node.
func (l Local) answerWho(v url.Values) (any, error) {
	q, err := ParseWho(v)
	if err != nil {
		return nil, err
	}
	return l.who(&q), nil
}

// who looks for resources in all tables, and then at each client with one of these tables. Locks are held for
// steps of a scan, and for the chosen names of single clients.
func (l Local) who(q *WhoQuery) whoPart {
	s := &whoSearch{
		q: q, pattern: newPattern(q.Resource), names: make(map[*cache.Table][]string), copies: make(map[copyOf]whoCount),
		resources: make(map[resourceID]*whoTotal), past: make(map[*cache.Table][]cache.Past),
	}
	var tables []*cache.Table
	var keys []string
	groups := slices.Clone(l.Groups())
	slices.SortFunc(groups, func(a, b *cache.Group) int { return cmp.Compare(a.Key, b.Key) })
	for _, g := range groups {
		if q.Key != "" && string(g.Key) != q.Key {
			continue
		}
		for _, t := range g.Tables() {
			if q.Type == "" || t.Type.URL == q.Type {
				tables, keys = append(tables, t), append(keys, string(g.Key))
			}
		}
	}
	s.choose(tables)
	for i, t := range tables {
		for _, name := range s.wanted(t) {
			if info, ok := t.Find(name); ok {
				s.addCopy(l.Node, keys[i], copyOf{t, name}, &info)
			}
		}
	}
	out := whoPart{Resources: []WhoResource{}, Copies: []WhoCopy{}}
	out.Clients, out.MoreLater = l.whoClients(s)
	if q.after == nil {
		s.sum(&out)
	}
	return out
}

// whoClients returns a page of clients, and counts all.
func (l Local) whoClients(s *whoSearch) (page []WhoClient, more bool) {
	page = []WhoClient{}
	cut := func() {
		slices.SortFunc(page, func(a, b WhoClient) int { return a.rank().compare(b.rank()) })
		if len(page) > s.q.Limit {
			clear(page[s.q.Limit:])
			page, more = page[:s.q.Limit], true
		}
	}
	for _, c := range l.Clients() {
		if s.q.Key != "" && c.Key() != s.q.Key {
			continue
		}
		c.Find(s.wanted, func(f *fanout.FoundResource) bool {
			one := s.count(l.Node, c, f)
			if one == nil || s.q.after != nil && one.rank().compare(*s.q.after) <= 0 {
				return true
			}
			if page = append(page, *one); len(page) >= 2*s.q.Limit {
				cut()
			}
			return true
		})
	}
	cut()
	return page, more
}

// choose decides which resources the answer is about: the first ones by type and name. All nodes decide so, so
// that the first ones of all are complete.
func (s *whoSearch) choose(tables []*cache.Table) {
	if s.pattern.parts == nil {
		return
	}
	var all []resourceID
	cut := func() {
		slices.SortFunc(all, resourceID.compare)
		if all = slices.Compact(all); len(all) > mostResources {
			all, s.more = all[:mostResources], true
		}
	}
	for _, t := range tables {
		names, more := t.NamesLike(s.pattern.match, mostResources)
		s.more = s.more || more
		for _, name := range names {
			all = append(all, resourceID{t.Type.URL, name})
		}
		if len(all) > 20*mostResources {
			cut()
		}
	}
	cut()
	s.chosen = make(map[resourceID]bool, len(all))
	for _, one := range all {
		s.chosen[one] = true
	}
}

// wanted returns the chosen names of a table.
func (s *whoSearch) wanted(t *cache.Table) []string {
	if s.q.Type != "" && t.Type.URL != s.q.Type {
		return nil
	}
	names, known := s.names[t]
	if !known {
		if s.pattern.parts == nil {
			names = []string{s.pattern.exact}
		}
		for one := range s.chosen {
			if one.url == t.Type.URL {
				names = append(names, one.name)
			}
		}
		s.names[t] = names
	}
	return names
}

// standingWords are the names of standings.
var standingWords = map[cache.Standing]string{
	cache.Requested: "REQUESTED", cache.Unreachable: "UNREACHABLE", cache.Absent: "ABSENT", cache.Accepted: "ACCEPTED", cache.Rejected: "REJECTED", cache.Failed: "ERROR",
}

// missingWords say why a resource is not there.
var missingWords = map[cache.Standing]string{
	cache.Requested: "the control plane has not answered", cache.Unreachable: "the control plane is unreachable", cache.Absent: "the control plane does not have it",
	cache.Rejected: "the relay rejected what the control plane sent", cache.Failed: "the control plane reported an error",
}

// addCopy adds a resource of a key.
func (s *whoSearch) addCopy(node, key string, at copyOf, i *cache.NameInfo) {
	version, digest := redact.Text(i.Version), ""
	if i.Resource != nil {
		digest = i.Resource.Member().Hex()
	} else {
		version = ""
	}
	total := s.total(at.table.Type.URL, i.Name)
	of := total.versions[[2]string{version, digest}]
	switch {
	case of != nil:
	case len(total.versions) >= mostVersions:
		total.OmittedVersions++
	default:
		of = &WhoVersion{Version: version, Digest: digest, States: Count{}}
		total.versions[[2]string{version, digest}] = of
	}
	if of != nil {
		h := fnv.New32a()
		_, _ = h.Write([]byte(key)) // never fails
		of.addKeys([]uint32{h.Sum32()})
	}
	missing := ""
	if i.Resource == nil {
		missing = missingWords[i.Standing]
		if i.Problem != nil {
			missing += ": " + i.Problem.Message
		}
	}
	if len(s.rows) == mostCopies {
		s.omitted++
		s.copies[at] = whoCount{nil, of, missing}
		return
	}
	row := &WhoCopy{
		URL: at.table.Type.URL, Type: ShortName(at.table.Type.URL), Name: i.Name, Key: key, Node: node, Version: version, Digest: digest, Standing: standingWords[i.Standing], States: Count{},
	}
	if i.Problem != nil {
		row.Problem = i.Problem.Message
	}
	if i.Resource != nil {
		row.Changed, row.Bytes = i.Changed, i.Resource.Size()
	}
	s.rows = append(s.rows, row)
	s.copies[at] = whoCount{row, of, missing}
}

// total is where a resource is counted.
func (s *whoSearch) total(url, name string) *whoTotal {
	of := resourceID{url, name}
	one := s.resources[of]
	if one == nil {
		one = &whoTotal{WhoResource{URL: url, Type: ShortName(url), Name: name, States: Count{}, Versions: []WhoVersion{}}, make(map[[2]string]*WhoVersion)}
		s.resources[of] = one
	}
	return one
}

// count counts a client with a resource, and returns it if the query selects it.
func (s *whoSearch) count(node string, c fanout.Client, f *fanout.FoundResource) *WhoClient {
	state := f.State
	if f.Resource == nil && !f.Removed && state != Unknown {
		state = MissingResource
	}
	total := s.total(f.Type.URL, f.Name)
	total.States[state]++
	of, ok := s.copies[copyOf{f.Table, f.Canonical}]
	if ok {
		if of.row != nil {
			of.row.States[state]++
		}
		if of.version != nil {
			of.version.States[state]++
		}
	}
	if !s.q.selects(state) {
		return nil
	}
	total.Selected++
	one := &WhoClient{
		Name: c.ID(), Key: c.Key(), Node: node, Peer: c.Peer(), URL: f.Type.URL, Type: ShortName(f.Type.URL), Resource: f.Name, Interest: f.Interest,
		State: state, Since: f.Since, Has: f.Holding, Removed: f.Removed, Private: f.Private, Nack: f.Nack, AckedVersion: s.acked(f.Table, f.Acked),
	}
	if f.Holding == fanout.HasCurrent {
		one.Version = redact.Text(f.Version)
	}
	if state != Synced {
		if one.Waiting = f.Waiting; f.After != "" {
			one.Waiting = "ordered after " + ShortName(f.After)
		}
	}
	if state == MissingResource {
		one.Waiting = cmp.Or(of.missing, "the control plane has not sent it")
	}
	return one
}

// acked returns the version of the newest update of a table that a client has acknowledged.
func (s *whoSearch) acked(t *cache.Table, gen uint64) string {
	past, known := s.past[t]
	if !known {
		past = t.History()
		s.past[t] = past
	}
	for i := range past { // the newest first
		if past[i].Generation <= gen {
			return redact.Text(past[i].Version)
		}
	}
	return ""
}

// sum puts the numbers into an answer.
func (s *whoSearch) sum(out *whoPart) {
	out.More, out.Omitted = s.more, s.omitted
	for _, row := range s.rows {
		out.Copies = append(out.Copies, *row)
	}
	for _, total := range s.resources {
		one := total.WhoResource
		for _, v := range total.versions {
			one.Versions = append(one.Versions, *v)
		}
		out.Resources = append(out.Resources, one)
	}
	slices.SortFunc(out.Resources, func(a, b WhoResource) int { return a.id().compare(b.id()) })
}
