package upstream

import (
	"fmt"
	"maps"
	"slices"
)

// snapshot decides which content of each file is in effect and merges it. old is the previous
// snapshot, if any.
func (l *dirLoader) snapshot(old *dirSnapshot) *dirSnapshot {
	s := newDirSnapshot()
	s.read, s.errs, s.own = true, make(map[string]error), make(map[string]*dirLevel)
	levels := map[string]*dirLevel{"": l.level("")}
	for _, f := range l.files {
		if levels[f.level] == nil {
			levels[f.level] = l.level(f.level)
		}
	}
	for _, f := range l.files {
		if f.err != nil {
			s.errs[f.path] = f.err
		}
	}
	if old == nil {
		old = newDirSnapshot()
	}
	s.common = levels[""]
	s.common.finish(old.common)
	for name, level := range levels {
		if name != "" {
			s.own[name] = level.mergedOver(s.common)
			s.own[name].finish(old.own[name])
		}
	}
	l.dirty = false
	return s
}

// level merges the files of one level, in the order of their paths.
func (l *dirLoader) level(name string) *dirLevel {
	level := &dirLevel{sets: make(map[string]*dirSet), unknown: make(map[string]error)}
	taken := make(map[dirName]string) // path of the file that has a name
	for _, path := range slices.Sorted(maps.Keys(l.files)) {
		if f := l.files[path]; f.level == name {
			f.resolve(level, taken)
		}
	}
	return level
}

// resolve decides which content of f is in effect and adds it to level.
func (f *dirFile) resolve(level *dirLevel, taken map[dirName]string) {
	f.err = f.broken
	use := f.good
	if f.parsed != nil {
		if f.err = f.conflict(taken); f.err == nil {
			f.good, f.initial = f.parsed, false
		}
		if f.good == nil {
			f.good, f.initial = f.parsed, false // there is no earlier content: use all but the duplicates
		}
		use = f.good
	}
	if use != nil {
		level.add(use, taken, f.path)
		return
	}
	if !f.initial {
		return
	}
	if f.holds == nil {
		level.unknown[""] = f.err
	}
	for _, t := range f.holds {
		level.unknown[t] = f.err
	}
}

// conflict returns an error if another file has a name of f.
func (f *dirFile) conflict(taken map[dirName]string) error {
	for _, r := range f.parsed.resources {
		if other, ok := taken[dirName{f.parsed.typ.URL, r.Key}]; ok {
			f.reason = reasonDuplicate
			return fmt.Errorf("%s: the resource %q is in %s too; expected each name of a type in one file of a directory", f.path, r.Name, other)
		}
	}
	return nil
}
