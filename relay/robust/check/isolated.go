package check

import (
	"fmt"

	"xdsrelay/relay/robust/record"
)

// isolated: a client is sent only what bears the stamp of its key.
type isolated struct{}

func (isolated) name() string { return "Isolated" }

func (isolated) check(m *Model, e *record.Event) (wrong []string) {
	s := m.streams[e.Stream]
	if e.Kind != record.ClientGot || s == nil {
		return nil
	}
	for _, r := range e.Resources {
		if r.Key != s.client.key {
			wrong = append(wrong, fmt.Sprintf("a client of key %q was sent %s of key %q", s.client.key, r.Name, r.Key))
		}
	}
	return wrong
}
