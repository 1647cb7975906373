package migrate

// File is a file of xds-relay.
type File struct {
	Name string // for messages
	Data []byte
}

// Result is the configuration that does what the files do.
type Result struct {
	// Text is the configuration, in YAML.
	Text []byte
	// Warnings are what the configuration lacks or does otherwise; its comments say so, too.
	Warnings []Problem
	// Origin reports whether it says where configuration comes from.
	Origin bool
}

// Translate writes the configuration for a bootstrap file, a file of aggregation rules
// or both, in any order. The error is an [*Error].
func Translate(files ...File) (*Result, error) {
	d := &decoder{}
	var (
		boot  *bootstrap
		rules *ruleFile
		names []string
	)
	for _, f := range files {
		names = append(names, f.Name)
		t, p := readTree(f)
		if p != nil {
			d.problems = append(d.problems, *p)
			continue
		}
		isRules := t.get("fragments") != nil
		isBoot := t.get("server") != nil || t.get("origin_server") != nil
		switch {
		case isRules && rules != nil, isBoot && boot != nil && !isRules:
			d.fail(place{file: f.Name}, "is the second file of its kind, expected one bootstrap and one file of rules")
		case isRules:
			r := d.ruleFile(t)
			rules = &r
			if len(d.problems) == 0 && r.group(d.types).nobody {
				d.fail(t.at, "no rule matches any request")
			}
		case isBoot:
			b := d.bootstrap(t)
			boot = &b
		default:
			d.fail(t.at, "is neither a bootstrap of xds-relay, which has server and origin_server, nor a file of aggregation rules, which has fragments")
		}
	}
	if len(files) == 0 {
		return nil, &Error{Problems: []Problem{{Message: "no file, expected a bootstrap of xds-relay, its aggregation rules, or both"}}}
	}
	if len(d.problems) > 0 {
		return nil, &Error{Problems: d.problems}
	}
	w := &writer{decoder: d}
	w.bootstrap(boot)
	if rules != nil {
		w.rules(*rules)
	}
	if boot == nil {
		d.note(place{}, "", "No bootstrap file was given, so this configuration has no control plane: set upstream.addresses, or run it with --upstream.")
	}
	if rules == nil {
		d.note(place{}, "", "No file of rules was given, so clients of one cluster share a key.")
	}
	w.section("aggregation")
	text := w.head(names) + w.b.String()
	return &Result{Text: []byte(text), Warnings: w.warnings(names), Origin: boot != nil}, nil
}
