package config

import (
	"slices"
	"strconv"
	"strings"

	"xdsrelay/relay/resource"
)

// DefaultName is what the origin that has no name of its own is called.
const DefaultName = "default"

// checkOrigins checks where configuration comes from, and that it is clear from
// which origin each part of it does.
func (d *decoder) checkOrigins(cfg *Config) {
	if d.withoutOrigin {
		return
	}
	d.checkOrigin("origin", cfg.Origin)
	names, authorities, types := map[string]string{}, map[string]string{}, map[string]string{}
	d.checkAuthorities("origin", cfg.Origin, authorities)
	for i, o := range cfg.Origins {
		path := "origins[" + strconv.Itoa(i) + "]"
		if o.Name == DefaultName {
			d.wrong(path+".name", "is %q, which is the name of the section origin", DefaultName)
		} else {
			d.checkName(path+".name", "origin", o.Name, names)
		}
		d.checkOrigin(path, o.Origin)
		if len(o.Authorities)+len(o.Types) == 0 {
			d.wrong(path, "serves nothing, expected %s.types or %s.authorities", path, path)
		}
		d.checkAuthorities(path, o.Origin, authorities)
		for k, name := range o.Types {
			at := path + ".types[" + strconv.Itoa(k) + "]"
			t := d.typeNamed(at, name)
			switch {
			case t == nil:
			case types[t.URL] != "":
				d.wrong(at, "%s is served from %s already, expected each type once", name, types[t.URL])
			case t.DeltaOnly() && o.Directory == "" && o.Variant == SotW: // A2, D8
				d.wrong(at, "%s exists in the delta variant only, and %s.variant is sotw", name, path)
			default:
				types[t.URL] = path
			}
		}
	}
}

// checkName checks what an origin or listener is called; names holds those before it.
func (d *decoder) checkName(path, what, name string, names map[string]string) {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
	}
	switch {
	case name == "":
		d.wrong(path, "is empty, expected a name for this %s", what)
	case len(name) > 63 || strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }):
		d.wrong(path, "got %q, expected up to 63 letters, digits, - and _", shorten(name))
	case names[name] != "":
		d.wrong(path, "is %q, which %s is called already", name, names[name])
	}
	names[name] = path
}

// checkAuthorities checks those of one origin; owners holds who has others.
func (d *decoder) checkAuthorities(path string, o Origin, owners map[string]string) {
	for i, a := range o.Authorities {
		at := path + ".authorities[" + strconv.Itoa(i) + "]"
		d.placeItem(at, path+".authorities")
		switch {
		case strings.ContainsAny(a, "/?#% "):
			d.wrong(at, "got %q, expected what stands between xdstp:// and the next slash", shorten(a))
		case owners[a] != "":
			d.wrong(at, "%q is served from %s already, expected each authority once", a, owners[a])
		default:
			owners[a] = path
		}
	}
	d.checkTypes(path+".separate_names", o.SeparateNames)
	if len(o.SeparateNames) > 0 && o.Directory != "" {
		d.wrong(path+".separate_names", "is set for a directory, all of whose resources are in the wildcard set")
	}
}

// checkTypes checks a list of types, each of which may stand there once.
func (d *decoder) checkTypes(path string, names []string) {
	for i, name := range names {
		at := path + "[" + strconv.Itoa(i) + "]"
		d.placeItem(at, path)
		if t := d.typeNamed(at, name); t != nil && slices.Contains(names[:i], name) {
			d.wrong(at, "%s is listed twice", name)
		}
	}
}

// typeNamed finds the type that is meant by its URL or the last part of it.
func (d *decoder) typeNamed(path, name string) *resource.Type {
	t := resource.TypeNamed(name)
	if t == nil {
		var known []string
		for _, k := range resource.Known() {
			known = append(known, k.ShortName())
		}
		hint := didYouMean(name, known)
		if hint == "" {
			hint = "; expected a type URL or a name like " + known[0] + " or Secret"
		}
		d.wrong(path, "got %q, which is no known type%s", shorten(name), hint)
	}
	return t
}

// placeItem gives an item of a list the place of the list, where one variable or
// flag holds them all.
func (d *decoder) placeItem(item, list string) {
	if _, ok := d.places[item]; !ok {
		d.places[item] = d.at(list)
	}
}

// checkOrigin checks the origin in the section path.
func (d *decoder) checkOrigin(path string, o Origin) {
	switch {
	case len(o.Addresses) > 0 && o.Directory != "":
		// The later setting is the one to look at.
		d.wrong(path+".directory", "is set to %q and %s.addresses to %s (%s), expected only one of the two",
			o.Directory, path, strings.Join(o.Addresses, ", "), d.where(path+".addresses"))
	case len(o.Addresses) == 0 && o.Directory == "" && len(d.problems) > 0:
		// It may well be what was misspelt.
	case len(o.Addresses) == 0 && o.Directory == "":
		flag := ""
		if path == "origin" {
			flag = " (or --upstream)"
		}
		d.wrong(path, "names no source of configuration, expected %s.addresses (a control plane) or %s.directory%s", path, path, flag)
	case o.Directory != "":
		d.checkDirectory(path+".directory", o.Directory)
	}
	switch {
	case o.WatchedDirectory != "" && o.Directory == "":
		d.wrong(path+".watched_directory", "is set without %s.directory, whose changes it stands for", path)
	case o.WatchedDirectory != "":
		d.checkDirectory(path+".watched_directory", o.WatchedDirectory)
	}
	seen := make(map[string]bool)
	for i, address := range o.Addresses {
		at := path + ".addresses[" + strconv.Itoa(i) + "]"
		d.placeItem(at, path+".addresses")
		if ok := d.target(at, address); ok && seen[address] {
			d.wrong(at, "%s is listed twice", address)
		}
		seen[address] = true
	}
	d.checkTLS(path+".tls", o.TLS.TLS)
	if o.TLS.On() && o.Directory != "" {
		d.wrong(path+".tls", "is set for a directory, which needs no connection")
	}
	d.readable(path+".token_file", o.TokenFile)
	if o.TokenFile != "" && !o.TLS.On() {
		d.wrong(path+".token_file", "is set without %s.tls, and who sees the traffic could be the relay then: expected TLS", path)
	}
	if b := o.Backoff; b.Max < b.Initial {
		d.wrong(path+".backoff.max", "is %s, expected at least %s.backoff.initial, %s", b.Max, path, b.Initial)
	}
}
