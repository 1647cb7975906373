package check

import (
	"fmt"

	"xdsrelay/relay/robust/record"
)

// noPhantom: a client is sent no content that the origin has not served before.
type noPhantom struct{}

func (noPhantom) name() string { return "NoPhantom" }

func (noPhantom) check(m *Model, e *record.Event) (wrong []string) {
	if e.Kind != record.ClientGot {
		return nil
	}
	for _, r := range e.Resources {
		if id := (resourceID{kind{r.Key, e.Type}, r.Name}); !m.histories[id].served(r.Serial) {
			wrong = append(wrong, fmt.Sprintf("%s@%d of %s was never served by the origin", r.Name, r.Serial, record.ShortType(e.Type)))
		}
	}
	return wrong
}
