package events

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"xdsrelay/relay/redact"
)

// Event is something that happened in a tier, as one node recorded it.
type Event struct {
	// Seq numbers the events of a node from 1 on.
	Seq      uint64    `json:"seq"`
	Time     time.Time `json:"time"`
	Kind     Kind      `json:"kind"`
	Severity Severity  `json:"severity"`
	// Node recorded the event.
	Node    string  `json:"node"`
	Subject Subject `json:"subject"`
	// Text says what happened, the consequence, and what to do.
	Text string `json:"text"`
	// Attributes are the values of the text, and further ones.
	Attributes map[string]string `json:"attributes"`
	// Keys are the aggregation keys that it is about, at most [MostKeys]. The attribute keys is
	// how many there are, for a kind that combines.
	Keys []string `json:"keys,omitempty"`
	// Omitted is how many earlier events of the kind were not recorded because there were too
	// many in a minute.
	Omitted int `json:"omitted,omitempty"`
}

// Subject is what an event is about.
type Subject struct {
	About About `json:"about"`
	// Name is empty if there is only one, such as Redis.
	Name string `json:"name,omitempty"`
}

// Bounds of one event: how many keys it lists, and how long a value and a name are, in bytes.
const (
	MostKeys  = 16
	mostValue = 512
	mostName  = 256
)

// attributeKeys is how many keys an event is about.
const attributeKeys = "keys"

// fact is what a line of the log reports.
type fact struct {
	spec   *Spec
	at     time.Time
	values map[string]string
}

// factOf makes a fact of the attributes of a line. Values are redacted and bounded.
func factOf(spec *Spec, at time.Time, attrs func(yield func(slog.Attr) bool)) *fact {
	f := &fact{spec: spec, at: at, values: make(map[string]string, len(spec.Attributes)+1)}
	for a := range attrs {
		if a.Key == spec.Name || slices.Contains(spec.Attributes, a.Key) {
			most := mostValue
			if a.Key == spec.Name {
				most = mostName
			}
			if text := redact.Short(plain(textOf(a.Value)), most); text != "" {
				f.values[a.Key] = text
			}
		}
	}
	return f
}

// plain makes one line of a text: without the indented lines that show where in a file a mistake is,
// and without what gRPC wraps around the error of a connection.
func plain(text string) string {
	if strings.Contains(text, "\n") {
		var lines []string
		for line := range strings.Lines(text) {
			if line = strings.TrimRight(line, "\n"); line != "" && line[0] != ' ' {
				lines = append(lines, line)
			}
		}
		text = strings.Join(lines, "; ")
	}
	return Cause(text)
}

// Cause is the end of a text of gRPC about a connection, which says what is wrong. Other texts stay
// unchanged.
func Cause(text string) string {
	for _, before := range []string{"Error while dialing: ", `desc = "`} {
		if i := strings.LastIndex(text, before); i >= 0 {
			return strings.TrimSuffix(text[i+len(before):], `"`)
		}
	}
	return text
}

// textOf is a value for people.
func textOf(v slog.Value) string {
	v = v.Resolve()
	switch v.Kind() {
	case slog.KindTime:
		return v.Time().UTC().Format(time.RFC3339)
	case slog.KindAny:
		switch of := v.Any().(type) {
		case []string:
			return strings.Join(of, ", ")
		case error:
			return of.Error()
		case nil:
			return ""
		}
		return fmt.Sprint(v.Any())
	}
	return v.String()
}

// event makes an event of a fact that node recorded. keys are those of a combined one, n of them.
func (f *fact) event(node string, keys []string, n int) Event {
	e := Event{Time: f.at, Kind: f.spec.Kind, Severity: f.spec.Severity, Node: node, Subject: Subject{About: f.spec.About}, Attributes: f.values, Keys: keys}
	switch {
	case f.spec.Combining != Single && n > 1:
		delete(f.values, f.spec.Name)
		fallthrough
	case f.spec.Combining != Single:
		f.values[attributeKeys] = strconv.Itoa(n)
		e.Subject.Name = f.values[f.spec.Name]
	case f.spec.Name != "":
		e.Subject.Name = f.values[f.spec.Name]
	case f.spec.About == AboutNode || f.spec.About == AboutClients:
		e.Subject.Name = node
	}
	if f.spec.Name == "key" && len(keys) == 0 && e.Subject.Name != "" {
		e.Keys = []string{e.Subject.Name}
	}
	e.write(f.spec)
	return e
}

// write writes the text.
func (e *Event) write(spec *Spec) {
	e.Text = expand(spec.Text, func(name string) string {
		if name == "node" {
			return e.Node
		}
		return e.Attributes[name]
	})
}

// size is about how many bytes of memory an event takes.
func (e *Event) size() int {
	n := 256 + len(e.Text) + len(e.Subject.Name)
	for k, v := range e.Attributes {
		n += 64 + len(k) + len(v)
	}
	for _, k := range e.Keys {
		n += 16 + len(k)
	}
	return n
}

// IsAbout reports whether an event is about a key. An event that does not list all of its keys may
// be about any.
func (e *Event) IsAbout(key string) bool {
	if slices.Contains(e.Keys, key) {
		return true
	}
	return e.Subject.About == AboutKey && e.number(attributeKeys) > len(e.Keys)
}
