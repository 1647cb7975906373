package check

import (
	"testing"

	"xdsrelay/relay/robust/record"
)

// TestOneStream: a key with no stream, with two, and a stream for a key that nobody
// has are seen at rest.
func TestOneStream(t *testing.T) {
	const of = "OneStream"
	rest := at(record.Rest, "")
	second := record.Event{Kind: record.OriginOpen, Stream: 901, Key: "k"}
	mustBeFine(t, forge(t, of, start(rest)))
	mustBeFine(t, forge(t, of, start(second)))
	mustFind(t, forge(t, of, start(second, rest)), "2 streams for key k")
	first := record.Event{Kind: record.OriginEnd, Stream: 900}
	mustBeFine(t, forge(t, of, start(second, first, rest)))
	mustFind(t, forge(t, of, start(first, rest)), "0 streams for key k")
	away := func(client string) record.Event { return record.Event{Kind: record.ClientAway, Client: client} }
	mustBeFine(t, forge(t, of, start(away("d"), away("s"), first, rest)))
	mustFind(t, forge(t, of, start(away("d"), away("s"), second, rest)), "2 streams for key k")
	mustFind(t, forge(t, of, start(away("d"), first, rest)), "0 streams for key k")
	second.Key = "other"
	mustFind(t, forge(t, of, start(second, rest)), "1 streams for key other, which has no clients")
}
