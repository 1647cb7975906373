package config

import "time"

func (d *decoder) checkLimits(cfg *Config) {
	l := cfg.Limits
	for _, f := range []struct {
		name string
		got  int
	}{
		{"connections", l.Connections}, {"connections_per_source", l.ConnectionsPerSource}, {"connections_per_identity", l.ConnectionsPerIdentity},
		{"streams", l.Streams}, {"streams_per_source", l.StreamsPerSource}, {"streams_per_identity", l.StreamsPerIdentity},
		{"keys", l.Keys}, {"keys_per_identity", l.KeysPerIdentity}, {"requests_per_second", l.RequestsPerSecond},
		{"new_streams", l.NewStreams}, {"peer_connections", l.PeerConnections}, {"peer_streams", l.PeerStreams},
	} {
		if f.got < 0 {
			d.wrong("limits."+f.name, "is %d, expected at least 0", f.got)
		}
	}
	d.intWithin("limits.streams_per_connection", l.StreamsPerConnection, 1, 1_000_000)
	d.intWithin("limits.types_per_stream", l.TypesPerStream, 1, 64)
	d.intWithin("limits.types_per_key", l.TypesPerKey, 1, 256)
	d.intWithin("limits.request_burst", l.RequestBurst, 1, 1_000_000_000)
	d.sizeWithin("limits.name_size", l.NameSize, 1<<10, 1<<30)
	d.sizeWithin("limits.node_size", l.NodeSize, 1<<10, 64<<20)
	d.sizeWithin("limits.header_size", l.HeaderSize, 4<<10, 16<<20)
	if l.RequestTimeout != 0 {
		d.atLeast("limits.request_timeout", l.RequestTimeout, time.Second)
	}
	if l.SyncWithin < time.Second || l.SyncWithin > time.Minute {
		d.wrong("limits.sync_within", "is %s, expected 1s to 1m", l.SyncWithin)
	}
	if l.IdleTimeout != 0 {
		d.atLeast("limits.idle_timeout", l.IdleTimeout, time.Minute)
	}
	if l.MemoryPercent != 0 {
		d.intWithin("limits.memory_percent", l.MemoryPercent, 10, 95)
	}
}

func (d *decoder) intWithin(path string, got, least, most int) {
	if got < least || got > most {
		d.wrong(path, "is %d, expected %d to %d", got, least, most)
	}
}
