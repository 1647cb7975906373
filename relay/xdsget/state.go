package xdsget

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/relay/redact"
	"xdsrelay/relay/xdsclient"
)

// Condition is what became of a resource.
type Condition string

// The conditions.
const (
	Accepted Condition = "accepted" // it arrived, and was acknowledged (ACK)
	Rejected Condition = "rejected" // it arrived, and was rejected (NACK)
	Missing  Condition = "missing"  // it did not arrive
)

// State is what a session has. It may be shown.
type State struct {
	Server  string          `json:"server"`
	Variant string          `json:"variant"`
	Node    json.RawMessage `json:"node"`
	// Complete is true if all that was asked for and followed has arrived and was accepted.
	Complete bool `json:"complete"`
	// Error is why the last stream, or attempt at one, ended; empty while the server answers.
	Error string `json:"error,omitempty"`
	// Types are in the order in which servers send them.
	Types []TypeState `json:"types"`
	// Resources are in order of types and names.
	Resources []Resource `json:"resources"`
	// Violations are breaches of the xDS protocol by the server, each with the id of its rule.
	Violations []string `json:"violations,omitempty"`
}

// TypeState is one type of a [State].
type TypeState struct {
	URL       string `json:"type_url"`
	Version   string `json:"version"`            // of the last response that was accepted
	Responses int    `json:"responses"`          // responses since the start
	Accepted  int    `json:"accepted"`           // resources
	Rejected  int    `json:"rejected"`           // resources
	Missing   int    `json:"missing"`            // names without a resource
	Reason    string `json:"reason,omitempty"`   // why the last response was rejected
	Problem   string `json:"problem,omitempty"`  // why the type cannot arrive
	Wildcard  bool   `json:"wildcard,omitempty"` // subscribed to as a whole
}

// Resource is one resource of a [State], or a name without one.
type Resource struct {
	URL       string    `json:"type_url"`
	Name      string    `json:"name"`
	Condition Condition `json:"state"`
	Version   string    `json:"version,omitempty"`
	Bytes     int       `json:"bytes,omitempty"`
	// Problem is why it is missing or rejected.
	Problem string `json:"problem,omitempty"`
	// Resource is the redacted resource as JSON.
	Resource json.RawMessage `json:"resource,omitempty"`
}

// mostViolations limits how many violations a state has.
const mostViolations = 20

// State returns what the session has, with the content of resources if contents is true.
func (s *Session) State(contents bool) State {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := State{
		Server: s.cfg.Addr, Variant: variantName(s.cfg), Node: nodeJSON(&s.cfg),
		Complete: s.fatal == nil && !s.dirty, Types: []TypeState{}, Resources: []Resource{},
	}
	if e := s.last; e != nil {
		st.Error = e.Error()
	}
	for _, url := range xdsclient.InPushOrder(keys(s.types)) {
		t := s.types[url]
		if len(t.names()) == 0 && len(t.held) == 0 {
			continue // nothing refers to it any more
		}
		ts := TypeState{
			URL: url, Version: t.version, Responses: t.responses, Reason: redact.Text(t.reason), Problem: redact.Text(t.problem),
			Wildcard: t.wants(xdsclient.Wildcard),
		}
		for _, r := range t.resources(s.last != nil && t.responses == 0, contents) {
			switch r.Condition {
			case Accepted:
				ts.Accepted++
			case Rejected:
				ts.Rejected++
			case Missing:
				ts.Missing++
			}
			st.Resources = append(st.Resources, r)
		}
		st.Complete = st.Complete && ts.Rejected == 0 && ts.Missing == 0 && ts.Problem == "" && ts.Reason == ""
		st.Types = append(st.Types, ts)
	}
	for _, one := range s.streams {
		for _, v := range one.client.Violations() {
			if len(st.Violations) < mostViolations {
				st.Violations = append(st.Violations, redact.Text(v))
			}
		}
	}
	slices.Sort(st.Violations)
	return st
}

// resources lists the resources of a type, and the names without one.
func (t *subscription) resources(disconnected, contents bool) (all []Resource) {
	for _, name := range slices.Sorted(maps.Keys(t.held)) {
		e := t.held[name]
		r := Resource{URL: t.url, Name: name, Condition: Accepted, Version: e.version, Bytes: len(e.body)}
		if bad, ok := t.rejected[name]; ok {
			r.Condition, r.Problem = Rejected, redact.Text("version "+bad.version+": "+bad.reason)
		}
		if contents {
			var problem string
			if r.Resource, problem = e.shown(t.url); problem != "" {
				r.Problem = problem
			}
		}
		all = append(all, r)
	}
	for name, bad := range t.rejected {
		if t.held[name] == nil {
			all = append(all, Resource{URL: t.url, Name: name, Condition: Rejected, Version: bad.version, Problem: redact.Text(bad.reason)})
		}
	}
	missing := func(name, problem string) {
		all = append(all, Resource{URL: t.url, Name: name, Condition: Missing, Problem: redact.Text(problem)})
	}
	for name, reason := range t.absent {
		missing(name, reason)
	}
	names := t.waiting()
	if t.problem != "" {
		names = t.names()
	}
	for _, name := range names {
		switch {
		case t.problem != "":
			missing(name, t.problem)
		case disconnected:
			missing(name, "the server did not answer")
		case t.responses == 0:
			missing(name, "no response")
		default:
			missing(name, "not in any response")
		}
	}
	slices.SortFunc(all, func(a, b Resource) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// shown returns the redacted resource as JSON.
func (e *entry) shown(url string) (text json.RawMessage, problem string) {
	a := &anypb.Any{TypeUrl: url, Value: e.body}
	new(redact.Redactor).Any(a)
	text, err := protojson.Marshal(a)
	if err != nil {
		return nil, "it cannot be shown: " + redact.Text(err.Error())
	}
	return text, ""
}

// nodeJSON is the redacted Node.
func nodeJSON(cfg *Config) json.RawMessage {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(redact.Node(cfg.Node))
	if err != nil {
		return json.RawMessage("{}")
	}
	return text
}

// variantName is the variant of a session's streams.
func variantName(cfg Config) string {
	name := xdsclient.Variant{Delta: cfg.Delta}.String()
	if cfg.PerType {
		name = strings.TrimSuffix(name, "-ads") + "-per-type"
	}
	return name
}

func sortItems(items []Item) {
	slices.SortFunc(items, func(a, b Item) int { return strings.Compare(a.Name, b.Name) })
}
