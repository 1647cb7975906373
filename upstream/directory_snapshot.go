package upstream

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/resource"
)

// dirSnapshot is the content of all files at one time. It is immutable and shared by the runners of
// all keys. replaced is closed when there is a newer snapshot.
type dirSnapshot struct {
	read   bool                 // the directory was readable, now or earlier
	err    error                // why it cannot be read now
	errs   map[string]error     // by path
	common *dirLevel            // for keys without a sub-directory
	own    map[string]*dirLevel // by name of the sub-directory; common is merged in

	replaced chan struct{}
}

func newDirSnapshot() *dirSnapshot {
	return &dirSnapshot{common: &dirLevel{}, replaced: make(chan struct{})}
}

// dirLevel is what one key is served.
type dirLevel struct {
	sets map[string]*dirSet // by type URL
	// unknown are the types that may have more resources than sets has, and why; "" means all
	// types.
	unknown map[string]error
}

// dirSet is all resources of one type.
type dirSet struct {
	resources []*resource.Resource          // sorted by name
	names     map[string]*resource.Resource // by name and alias
	version   string                        // version_info, if a single file has all resources of the type
	files     int
	finished  bool // and therefore immutable
}

// emptySet is the set of a type without files.
var emptySet = &dirSet{}

// dirOfKey returns the name of the sub-directory of a key. It is unique for each key, has no path
// separator, and is not a special name: PathEscape does not escape dots, so a leading dot, as in
// "..", is written %2E.
func dirOfKey(k aggregation.Key) string {
	name := url.PathEscape(string(k))
	if strings.HasPrefix(name, ".") {
		name = "%2E" + name[1:]
	}
	return name
}

// checkDirName returns an error for a sub-directory that no key can have.
func checkDirName(name string) error {
	key, err := url.PathUnescape(name)
	if err != nil {
		return fmt.Errorf("%w; expected the name of a key as a URL path segment is escaped", err)
	}
	if want := dirOfKey(aggregation.Key(key)); want != name {
		return fmt.Errorf("the directory of the key %q is named %q", key, want)
	}
	return nil
}

func (s *dirSnapshot) level(own string) *dirLevel {
	if l := s.own[own]; l != nil {
		return l
	}
	return s.common
}

// lookup returns what the key with the sub-directory own is served of t, never nil, and whether
// that is known to be complete.
func (s *dirSnapshot) lookup(own string, t *resource.Type) (set *dirSet, complete bool) {
	l := s.level(own)
	if set = l.sets[t.URL]; set == nil {
		set = emptySet
	}
	return set, s.read && l.unknown[""] == nil && l.unknown[t.URL] == nil
}

// status returns nil if everything that the key is served could be read.
func (s *dirSnapshot) status(own string) error {
	if s.err != nil {
		return s.err
	}
	l := s.level(own)
	for _, t := range slices.Sorted(maps.Keys(l.unknown)) {
		return fmt.Errorf("directory: this file has no valid content yet: %w", l.unknown[t])
	}
	return nil
}

// add adds the resources of a file to the level, except those whose names are taken. It returns the
// names of these.
func (l *dirLevel) add(c *dirContent, taken map[dirName]string, path string) (twice []dirName) {
	set := l.sets[c.typ.URL]
	if set == nil {
		set = &dirSet{names: make(map[string]*resource.Resource, len(c.resources))}
		l.sets[c.typ.URL] = set
	}
	set.files++
	set.version = c.version
	for _, r := range c.resources {
		id := dirName{c.typ.URL, r.Key}
		if _, dup := taken[id]; dup {
			twice = append(twice, id)
			continue
		}
		taken[id] = path
		set.put(r)
	}
	return twice
}

// dirName identifies a resource of a level, by its canonical name.
type dirName struct{ typeURL, name string }

func (s *dirSet) put(r *resource.Resource) {
	s.resources = append(s.resources, r)
	s.names[r.Key] = r
	for _, a := range r.Aliases {
		s.names[a] = r
	}
}

// find returns the resources for a name in any spelling: one, or the members of a glob (G6).
func (s *dirSet) find(name string) []*resource.Resource {
	name = resource.Canonical(name)
	if r := s.names[name]; r != nil {
		return []*resource.Resource{r}
	}
	if !resource.IsGlob(name) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.resources), func(r *resource.Resource) bool { return resource.GlobOf(r.Key) != name })
}

// mergedOver returns the union of l and common. Where both have a name, l wins.
func (l *dirLevel) mergedOver(common *dirLevel) *dirLevel {
	out := &dirLevel{sets: maps.Clone(common.sets), unknown: maps.Clone(common.unknown)}
	if out.sets == nil {
		out.sets = make(map[string]*dirSet)
	}
	if out.unknown == nil {
		out.unknown = make(map[string]error)
	}
	maps.Copy(out.unknown, l.unknown)
	for t, own := range l.sets {
		base := out.sets[t]
		if base == nil {
			out.sets[t] = own
			continue
		}
		merged := &dirSet{names: maps.Clone(base.names), files: base.files + own.files}
		for _, r := range base.resources {
			if o := own.names[r.Key]; o == nil || o.Key != r.Key {
				merged.resources = append(merged.resources, r)
			}
		}
		merged.resources = append(merged.resources, own.resources...)
		maps.Copy(merged.names, own.names)
		out.sets[t] = merged
	}
	return out
}

// finish sorts the sets. It reuses equal sets of old, so that a runner recognizes by identity that
// there is nothing to apply.
func (l *dirLevel) finish(old *dirLevel) {
	for url, set := range l.sets {
		if set.finished {
			continue // shared with the common level, which runners may be reading
		}
		set.finished = true
		slices.SortFunc(set.resources, func(a, b *resource.Resource) int { return strings.Compare(a.Name, b.Name) })
		// The version of a file counts only if clients can see exactly the content of that file:
		// there is a single file, and the type sends its full state (D7).
		if set.files != 1 || !resource.TypeOf(url).FullState {
			set.version = ""
		}
		if old == nil {
			continue
		}
		if o := old.sets[url]; o != nil && o.version == set.version && slices.Equal(o.resources, set.resources) {
			l.sets[url] = o
		}
	}
}
