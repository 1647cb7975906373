package upstream

import (
	"fmt"
	"maps"
	"slices"
)

// snapshot settles which content of each file is in force and returns what they
// say together; old is the one before, if any.
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
			s.own[name] = level.over(s.common)
			s.own[name].finish(old.own[name])
		}
	}
	l.dirty = false
	return s
}

// level merges the files of one level, in the order of their paths.
func (l *dirLoader) level(name string) *dirLevel {
	level := &dirLevel{sets: make(map[string]*dirSet), unknown: make(map[string]error)}
	taken := make(map[dirName]string) // the file that holds a name
	for _, path := range slices.Sorted(maps.Keys(l.files)) {
		if f := l.files[path]; f.level == name {
			f.settle(level, taken)
		}
	}
	return level
}

// settle decides which content of f is in force and puts it into level.
func (f *dirFile) settle(level *dirLevel, taken map[dirName]string) {
	f.err = f.broken
	use := f.good
	if f.parsed != nil {
		if f.err = f.conflict(taken); f.err == nil {
			f.good, f.fresh = f.parsed, false
		}
		if f.good == nil {
			f.good, f.fresh = f.parsed, false // nothing better: all but what is held twice
		}
		use = f.good
	}
	if use != nil {
		level.add(use, taken, f.path)
		return
	}
	if !f.fresh {
		return
	}
	if f.holds == nil {
		level.unknown[""] = f.err
	}
	for _, t := range f.holds {
		level.unknown[t] = f.err
	}
}

// conflict returns an error if another file holds a name of f.
func (f *dirFile) conflict(taken map[dirName]string) error {
	for _, r := range f.parsed.resources {
		if other, ok := taken[dirName{f.parsed.typ.URL, r.Key}]; ok {
			f.reason = reasonDuplicate
			return fmt.Errorf("%s: the resource %q stands in %s too; expected each name of a type in one file of a directory", f.path, r.Name, other)
		}
	}
	return nil
}
