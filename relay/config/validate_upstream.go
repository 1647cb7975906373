package config

import (
	"slices"
	"strconv"
	"strings"

	"xdsrelay/relay/resource"
)

// DefaultName is the name of the section listener, and of the section upstream.
const DefaultName = "default"

// checkUpstreams checks the upstreams, and that exactly one serves each type and
// authority.
func (d *decoder) checkUpstreams(cfg *Config) {
	if d.withoutUpstream {
		return
	}
	d.checkOneForm("upstream", len(cfg.Upstreams) > 0)
	names, authorities, types := map[string]string{}, map[string]string{}, map[string]string{}
	for i, o := range cfg.AllUpstreams() {
		path := cfg.UpstreamPath(i)
		d.checkUpstream(path, o.Upstream)
		d.checkAuthorities(path, o.Upstream, authorities)
		if len(cfg.Upstreams) == 0 {
			return
		}
		d.checkName(path+".name", "upstream", o.Name, names)
		switch {
		case i == 0 && len(o.Types) > 0:
			d.wrong(path+".types", "is set for the first upstream, which serves all types that no other upstream lists; expected none")
			continue
		case i > 0 && len(o.Authorities)+len(o.Types) == 0:
			d.wrong(path, "serves nothing, expected %s.types or %s.authorities", path, path)
		}
		for k, name := range o.Types {
			at := path + ".types[" + strconv.Itoa(k) + "]"
			t := d.typeNamed(at, name)
			switch {
			case t == nil:
			case types[t.URL] != "":
				d.wrong(at, "%s is already served by %s, expected each type once", name, types[t.URL])
			case t.DeltaOnly() && o.Directory == "" && o.Variant == SotW: // A2, D8
				d.wrong(at, "%s exists only in the delta variant, but %s.variant is sotw", name, path)
			default:
				types[t.URL] = path
			}
		}
	}
}

// checkName checks the name of an upstream or listener; names holds those before it.
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
		d.wrong(path, "is %q, which is already %s", name, names[name])
	}
	names[name] = path
}

// checkAuthorities checks those of one upstream; owners maps those of others to their paths.
func (d *decoder) checkAuthorities(path string, o Upstream, owners map[string]string) {
	for i, a := range o.Authorities {
		at := path + ".authorities[" + strconv.Itoa(i) + "]"
		d.placeItem(at, path+".authorities")
		switch {
		case strings.ContainsAny(a, "/?#% "):
			d.wrong(at, "got %q, expected the text between xdstp:// and the next slash", shorten(a))
		case owners[a] != "":
			d.wrong(at, "%q is already served by %s, expected each authority once", a, owners[a])
		default:
			owners[a] = path
		}
	}
	d.checkTypes(path+".separate_names", o.SeparateNames)
	if len(o.SeparateNames) > 0 && o.Directory != "" {
		d.wrong(path+".separate_names", "is set for a directory, whose resources are all in the wildcard set; remove it")
	}
}

// checkTypes checks a list of types without duplicates.
func (d *decoder) checkTypes(path string, names []string) {
	for i, name := range names {
		at := path + "[" + strconv.Itoa(i) + "]"
		d.placeItem(at, path)
		if t := d.typeNamed(at, name); t != nil && slices.Contains(names[:i], name) {
			d.wrong(at, "%s is listed twice", name)
		}
	}
}

// typeNamed finds a type by its URL or the last part of it.
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
		d.wrong(path, "got %q, an unknown type%s", shorten(name), hint)
	}
	return t
}

// placeItem gives an item of a list the place of the list, where one variable or flag
// sets all items.
func (d *decoder) placeItem(item, list string) {
	if _, ok := d.places[item]; !ok {
		d.places[item] = d.at(list)
	}
}

// checkUpstream checks the upstream in the section path.
func (d *decoder) checkUpstream(path string, o Upstream) {
	switch {
	case len(o.Addresses) > 0 && o.Directory != "":
		// The later setting is the likelier mistake.
		d.wrong(path+".directory", "is %q, but %s.addresses is %s (%s); use only one of the two",
			o.Directory, path, strings.Join(o.Addresses, ", "), d.where(path+".addresses"))
	case len(o.Addresses) == 0 && o.Directory == "" && len(d.problems) > 0:
		// It may well be the misspelled field.
	case len(o.Addresses) == 0 && o.Directory == "":
		flag := ""
		if path == "upstream" {
			flag = " (or --upstream)"
		}
		d.wrong(path, "has no source of configuration, expected %s.addresses (a control plane) or %s.directory%s", path, path, flag)
	case o.Directory != "":
		d.checkDirectory(path+".directory", o.Directory)
	}
	switch {
	case o.WatchedDirectory != "" && o.Directory == "":
		d.wrong(path+".watched_directory", "is set without %s.directory, whose changes it announces; set both or neither", path)
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
		d.wrong(path+".tls", "is set for a directory, which needs no connection; remove it")
	}
	d.readable(path+".token_file", o.TokenFile)
	if o.TokenFile != "" && !o.TLS.On() {
		d.wrong(path+".token_file", "is set without %s.tls, so everyone who sees the traffic can impersonate the relay; set %[1]s.tls", path)
	}
	if b := o.Backoff; b.Max < b.Initial {
		d.wrong(path+".backoff.max", "is %s, expected at least %s.backoff.initial, %s", b.Max, path, b.Initial)
	}
}
