package recent

import "slices"

// Versions has the newest versions of the control plane with the generations that the table reached by
// them, the oldest first. An update that changed nothing has a version, too.
type Versions []version

type version struct {
	text string
	gen  uint64
}

// MaxVersions is how many versions of the control plane a table remembers.
const MaxVersions = 16

// Add remembers the version of an update by which the table reached a generation. An empty version is
// none.
func (v *Versions) Add(text string, gen uint64) {
	if text == "" {
		return
	}
	if n := len(*v); n > 0 && (*v)[n-1].text == text {
		(*v)[n-1].gen = gen // another part of the same
		return
	}
	if len(*v) == MaxVersions {
		copy(*v, (*v)[1:])
		*v = (*v)[:MaxVersions-1]
	}
	*v = append(*v, version{text, gen})
}

// Reached returns the generation that the table reached by a version; ok is false if it is not
// remembered. If there were several updates with it, as after a rollback, the newest counts.
func (v Versions) Reached(text string) (gen uint64, ok bool) {
	for _, one := range slices.Backward(v) {
		if one.text == text {
			return one.gen, true
		}
	}
	return 0, false
}

// Since returns the versions of the updates after generation from, up to to, the oldest first. The last
// one may have begun before.
func (v Versions) Since(from, to uint64) (texts []string) {
	for _, one := range v {
		if one.gen > from && one.gen <= to {
			texts = append(texts, one.text)
		}
	}
	return texts
}

// At returns the newest version by which the table had reached no more than a generation; empty if it is
// not remembered.
func (v Versions) At(gen uint64) string {
	for _, one := range slices.Backward(v) {
		if one.gen <= gen {
			return one.text
		}
	}
	return ""
}

// Newest returns the newest version; empty if there is none.
func (v Versions) Newest() string {
	if n := len(v); n > 0 {
		return v[n-1].text
	}
	return ""
}
