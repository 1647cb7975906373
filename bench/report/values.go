package report

// Metric is something that a step says about its target.
type Metric struct {
	Key   string `json:"key"`
	Label string `json:"label"`
	Unit  Unit   `json:"unit"`
	// Cost says that less is better, so that ratios mean something.
	Cost bool `json:"cost"`
}

// The metrics that budgets are about.
const (
	CPUPerResponse  = "cpu_per_response"
	CPUPerClient    = "cpu_per_client"
	RSSPerClient    = "rss_per_client"
	RSSAtRest       = "rss_at_rest"
	P99             = "p99"
	ResentPerClient = "resent_per_client"
	BytesPerClient  = "bytes_per_client"
	StreamsOpened   = "origin_streams"
	OriginResponses = "origin_responses_per_change"
	CoreShare       = "core_share"
	LogLines        = "log_lines"
	Refused         = "refused"
	Peak            = "peak"
	HeapPerClient   = "heap_per_client"
	HeapPerKey      = "heap_per_key"
	AllocsPerAnswer = "allocations_per_response"
	OfFormula       = "of_formula"
	InUsePerClient  = "in_use_per_client"
)

// SharedMemory is what docs/sizing.md adds for what clients share, in bytes.
const SharedMemory = 256 << 20

// value is a metric of one run's step.
type value struct {
	Metric
	V float64
}

// values says what a step of a run means.
func (s *Step) values(setup Setup, run *Run) []value {
	var out []value
	add := func(key, label string, unit Unit, v float64) {
		out = append(out, value{Metric{Key: key, Label: label, Unit: unit}, v})
	}
	cost := func(key, label string, unit Unit, v float64) {
		out = append(out, value{Metric{Key: key, Label: label, Unit: unit, Cost: true}, v})
	}
	clients := float64(max(setup.Clients, 1))
	rss := func() {
		cost(RSSPerClient, "RSS per client", Bytes, float64(s.Target.RSS-run.Before.RSS)/clients)
		if s.Rested > 0 {
			cost(RSSAtRest, "RSS per client at rest", Bytes, float64(s.Rested-run.Before.RSS)/clients)
		}
		if s.Heap.Live == 0 {
			return
		}
		live := float64(s.Heap.Live - run.HeapBefore.Live)
		if setup.Cold {
			cost(HeapPerKey, "live heap per key, with its clients", Bytes, live/float64(max(setup.Keys, 1)))
		} else {
			cost(HeapPerClient, "live heap per client", Bytes, live/clients)
		}
		if s.Heap.InUse == 0 {
			return
		}
		inUse := float64(s.Heap.InUse - run.HeapBefore.InUse)
		if setup.Cold {
			cost("in_use_per_key", "memory in use per key, with its clients", Bytes, inUse/float64(max(setup.Keys, 1)))
		} else {
			cost(InUsePerClient, "memory in use per client", Bytes, inUse/clients)
		}
		if setup.Memory == 0 {
			return
		}
		// The memory limit is the formula's sum and what is shared, and half as much again.
		cost(OfFormula, "memory in use, of the formula in sizing.md", Percent, inUse/(float64(setup.Memory)*2/3-SharedMemory)*100)
	}
	latency := func(what string) {
		if s.Latency == nil || s.Latency.Count == 0 {
			return
		}
		cost("p50", what+" p50", Millis, s.Latency.P50)
		cost("p90", what+" p90", Millis, s.Latency.P90)
		cost(P99, what+" p99", Millis, s.Latency.P99)
		cost("p999", what+" p99.9", Millis, s.Latency.P999)
		cost("max", what+" max", Millis, s.Latency.Max)
	}
	tier := func(each string, n float64) {
		if !setup.Tier {
			return
		}
		cost("tier_cpu", "all nodes: CPU "+each, Micros, s.Target.CPU/n*1e6)
		cost("redis_calls", "Redis: calls "+each, Count, float64(s.Tier.Calls)/n)
		cost("redis_scripted", "Redis: commands in scripts "+each, Count, float64(s.Tier.Scripted)/n)
		cost("redis_in", "Redis: received "+each, Bytes, float64(s.Tier.RedisIn)/n)
		cost("redis_out", "Redis: sent "+each, Bytes, float64(s.Tier.RedisOut)/n)
		cost("peer_bytes", "between nodes: bytes "+each, Bytes, float64(s.Tier.Peers)/n)
	}
	switch s.Kind {
	case Connect, Storm, Restart:
		cost("seconds", "time until all are synced", Seconds, s.Seconds)
		add("synced", "clients synced", Count, float64(s.Synced))
		cost(CPUPerClient, "CPU per client", Micros, s.Target.CPU/clients*1e6)
		cost(BytesPerClient, "received per client", Bytes, float64(s.Clients.Bytes)/clients)
		add("resources_per_client", "resources per client", Count, float64(s.Clients.Resources)/clients)
		if s.Kind != Connect {
			add(ResentPerClient, "of these, held already", Count, float64(s.Clients.Resent)/clients)
		}
		latency("sync")
		rss()
		if s.Kind == Storm {
			cost(Peak, "peak RSS so far", Bytes, float64(s.Target.Peak))
		}
		if s.Kind == Storm || setup.Memory > 0 {
			add(Refused, "streams refused", Count, float64(s.Refused))
		}
		add(StreamsOpened, "origin: streams opened", Count, float64(s.Load.Streams))
		add("origin_requests", "origin: requests", Count, float64(s.Load.Requests))
		add("origin_responses", "origin: responses", Count, float64(s.Load.Responses))
		add("origin_bytes", "origin: bytes sent", Bytes, float64(s.Load.BytesOut))
	case Change:
		changes, responses := float64(max(s.Changes, 1)), float64(max(s.Clients.Responses, 1))
		cost(CPUPerResponse, "CPU per response and ACK", Micros, s.Target.CPU/responses*1e6)
		if s.Heap.Live > 0 {
			cost(AllocsPerAnswer, "objects allocated per response and ACK", Count, float64(s.Heap.Allocated)/responses)
		}
		cost("cpu_per_change", "CPU per client and change", Micros, s.Target.CPU/clients/changes*1e6)
		tier("per change", changes)
		latency("propagation")
		add("synced", "clients up to date", Count, float64(s.Synced))
		add("responses", "responses delivered", Count, float64(s.Clients.Responses))
		cost("bytes_per_response", "bytes per response", Bytes, float64(s.Clients.Bytes)/responses)
		rss()
		add(OriginResponses, "origin: responses per change", Count, float64(s.Load.Responses)/changes)
		add("origin_bytes_per_change", "origin: bytes per change", Bytes, float64(s.Load.BytesOut)/changes)
		add("origin_open", "origin: open streams", Count, float64(s.Load.Open))
		add("late", "origin: late with a change, at most", Millis, s.Late*1e3)
		if setup.Memory > 0 {
			cost(Peak, "peak RSS so far", Bytes, float64(s.Target.Peak))
			add(Refused, "streams refused, or ended for want of memory", Count, float64(s.Refused))
		}
		add("fleet_cpu", "fleet: CPU per response", Micros, s.Fleet.CPU/responses*1e6)
	case Release:
		if s.Rollout != nil {
			s.Rollout.values(setup, add)
		}
		cost("cpu", "CPU", Millis, s.Target.CPU*1e3)
		tier("", 1)
		add(LogLines, "log lines", Count, float64(s.LogLines))
	case Idle:
		cost(CoreShare, "CPU, of a core", Percent, s.Target.CPU/max(s.Seconds, 1e-3)*100)
		tier("per second", max(s.Seconds, 1e-3))
		add(LogLines, "log lines", Count, float64(s.LogLines))
		rss()
		add("origin_requests", "origin: requests", Count, float64(s.Load.Requests))
	}
	return out
}
