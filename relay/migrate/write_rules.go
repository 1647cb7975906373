package migrate

import (
	"slices"
	"strconv"
	"strings"
)

// rules writes the section aggregation.
func (w *writer) rules(f ruleFile) {
	g := f.group(w.types)
	field, pass := g.shown()
	w.tell(f, g, field, pass)
	w.section("aggregation")
	w.line("aggregation:")
	w.line("  rules:")
	w.line("    - name: xds-relay")
	if len(g.match) > 0 {
		w.block("match", strings.Join(parenthesized(g.match), "\n|| "))
	}
	w.block("key", g.key())
	if field != "" {
		w.line("      node_field: %s", field)
		if len(pass) > 0 {
			quoted := make([]string, len(pass))
			for i, p := range pass {
				if quoted[i] = p; !plainPath(p) {
					quoted[i] = strconv.Quote(p)
				}
			}
			w.line("      pass_fields: [%s]", strings.Join(quoted, ", "))
		}
	}
}

func parenthesized(conditions []string) []string {
	if len(conditions) == 1 {
		return conditions
	}
	out := make([]string, len(conditions))
	for i, c := range conditions {
		out[i] = "(" + c + ")"
	}
	return out
}

func plainPath(p string) bool {
	return !strings.ContainsFunc(p, func(r rune) bool {
		return r != '.' && r != '_' && (r < 'a' || 'z' < r) && (r < 'A' || 'Z' < r) && (r < '0' || '9' < r)
	})
}

// block writes an expression as it is, a line for each of its own.
func (w *writer) block(name, expression string) {
	w.line("      %s: |-", name)
	for line := range strings.SplitSeq(expression, "\n") {
		w.line("        %s", line)
	}
}

// tell notes what is different about keys.
func (w *writer) tell(f ruleFile, g grouping, field string, pass []string) {
	const section = "aggregation"
	shown := slices.Clone(pass)
	if field != "" {
		shown = append([]string{"the text of the key as the Node's " + field}, pass...)
	}
	if len(shown) == 0 {
		shown = []string{"only the name of the key"}
	}
	w.note(f.at, section, "xds-relay showed the control plane the Node of one client of the key, with all that is in it. xdsrelay shows it "+
		listed(shown)+", and nothing else. If the control plane needs more, list it under pass_fields.")
	if w.names != nil {
		w.note(*w.names, section, "Resource names are no part of keys: clients of one key may ask for different names, and the control plane is asked for all of them on one stream.")
	}
	if len(w.types) > 0 && len(f.left("")) == 0 {
		w.note(f.at, section, "xds-relay refused requests of types that no rule names. xdsrelay passes on whatever type a client asks for.")
	}
	w.tellOfRivals(f)
}

func listed(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// tellOfRivals notes where several rules of a fragment may add to the key of one
// request, which the documentation of xds-relay does not lead one to expect.
func (w *writer) tellOfRivals(f ruleFile) {
	for i, rules := range f.fragments {
		for _, url := range append(slices.Clone(w.types), "") {
			hit := 0
			for _, r := range rules {
				if t := r.match.under(url); !t.known || t.value {
					if hit++; hit == 2 {
						w.note(r.at, "aggregation", "Fragment "+strconv.Itoa(i+1)+" has several rules that may match one request. xds-relay adds each of them to the key, "+
							"although by its documentation the first one decides; so does this configuration.")
						break
					}
				}
			}
			if hit > 1 {
				break
			}
		}
	}
}
