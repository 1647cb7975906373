package config

import (
	"maps"
	"strconv"
)

// Override is a field that an environment variable or a flag sets.
type Override struct {
	// Field is its path.
	Field string
	// Source is the variable or flag whose value applies.
	Source string
	// Instead are the places whose values it replaces, the last one first: variables, and
	// lines of the file. Empty if it replaces the default.
	Instead []string
}

// Overrides lists the fields that environment variables and flags set, in the order of
// the configuration. It reads the input as Load does, and leaves mistakes to Load.
func Overrides(in Input) []Override {
	data := in.Data
	if data == nil && in.File != "" {
		data, _ = readFile(in.File) // Load reports the error
	}
	cfg := Default()
	d := decodeFile(in.File, data, cfg)
	d.decodeEnv(in.Env, cfg)
	d.decodeFlags(in.Flags, cfg)
	var all []Override
	for _, k := range keys() {
		if o, ok := d.overrides[k.path]; ok {
			all = append(all, o)
		}
	}
	return all
}

// override records that a field is set again, which replaces all of its content. An empty
// value that replaces nothing is not worth a record.
func (d *decoder) override(path string, at place, value string) {
	before, set := d.overrides[path]
	instead := before.Instead
	if set {
		instead = append([]string{before.Source}, instead...)
	} else {
		first := place{}
		for old, was := range d.places {
			if within(old, path) && was.Line > 0 && (first.Line == 0 || was.Line < first.Line) {
				first = was
			}
		}
		if first.Line > 0 {
			instead = []string{first.source + ":" + strconv.Itoa(first.Line)}
		}
	}
	if value != "" || len(instead) > 0 {
		if d.overrides == nil {
			d.overrides = make(map[string]Override)
		}
		d.overrides[path] = Override{Field: path, Source: at.source, Instead: instead}
	}
	maps.DeleteFunc(d.places, func(old string, _ place) bool { return within(old, path) })
	d.places[path] = at
}
