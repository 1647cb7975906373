package robust

import "xdsrelay/relay/robust/record"

// Totals counts what happened in a run.
type Totals struct {
	ClientStreams   int `json:"client_streams"`
	ClientResponses int `json:"client_responses"`
	ClientBytes     int `json:"client_bytes"`
	OriginStreams   int `json:"origin_streams"`
	OriginResponses int `json:"origin_responses"`
	OriginBytes     int `json:"origin_bytes"`
	OriginChanges   int `json:"origin_changes"` // of resources
	LostStreams     int `json:"lost_streams"`   // that clients did not end themselves
}

func (t *Totals) add(e *record.Event) {
	switch e.Kind {
	case record.ClientOpen:
		t.ClientStreams++
	case record.ClientGot:
		t.ClientResponses++
		t.ClientBytes += e.Bytes
	case record.ClientEnd:
		if !e.Own {
			t.LostStreams++
		}
	case record.OriginOpen:
		t.OriginStreams++
	case record.OriginSent:
		t.OriginResponses++
		t.OriginBytes += e.Bytes
	case record.OriginState:
		t.OriginChanges++
	}
}

// minus is what came since.
func (t Totals) minus(before Totals) Totals { return t.with(before, -1) }

func (t Totals) plus(more Totals) Totals { return t.with(more, 1) }

func (t Totals) with(o Totals, times int) Totals {
	return Totals{
		ClientStreams:   t.ClientStreams + times*o.ClientStreams,
		ClientResponses: t.ClientResponses + times*o.ClientResponses,
		ClientBytes:     t.ClientBytes + times*o.ClientBytes,
		OriginStreams:   t.OriginStreams + times*o.OriginStreams,
		OriginResponses: t.OriginResponses + times*o.OriginResponses,
		OriginBytes:     t.OriginBytes + times*o.OriginBytes,
		OriginChanges:   t.OriginChanges + times*o.OriginChanges,
		LostStreams:     t.LostStreams + times*o.LostStreams,
	}
}
