package telemetry

import "xdsrelay/relay/resource"

// Label is something by which measurements of an instrument are told apart. None is
// ever a client, a key or a resource, unless the configuration asks for the largest
// keys (telemetry.top_keys).
type Label struct {
	Name string
	// Values are all that there may be. Where they cannot be listed, Pattern is the
	// regular expression of one, and Meaning says what they are.
	Values  []string
	Pattern string
	Meaning string
	// Optional says that measurements may lack it.
	Optional bool
}

// label lists the values of a label.
func label(name string, values ...string) Label { return Label{Name: name, Values: values} }

// Labels that several instruments have.
func typeLabel() Label { return Label{Name: "type", Values: resource.TypeLabels(), Meaning: "types"} }

func variantLabel() Label { return label("variant", "sotw", "delta", "peer") }

// originLabel tells origins apart where there are several.
func originLabel() Label {
	return Label{Name: "origin", Pattern: `[^"]+`, Meaning: "a name in `origins`, or `another node`; the section `origin` has none", Optional: true}
}

// labels are those of each instrument. A test holds that each instrument stands here,
// and has no others.
func labels() map[string][]Label {
	serviceLabel := Label{Name: "service", Values: append([]string{"ads", "ads-v2"}, resource.TypeLabels()...), Meaning: "`ads`, `ads-v2`, or the type of a service of its own"}
	code := Label{Name: "code", Pattern: `[A-Z][A-Za-z]+`, Meaning: "gRPC status codes, like `InvalidArgument`"}
	call := Label{Name: "call", Pattern: `[a-z._]+`, Meaning: "what this program calls Redis for, like `head_write`"}
	m := map[string][]Label{
		"xdsrelay.build.info": {
			{Name: "version", Pattern: `.+`, Meaning: "of the program"},
			{Name: "go", Pattern: `go.+`, Meaning: "version of Go"},
		},

		"xdsrelay.refused": {{Name: "limit", Meaning: "what was reached, as the section `limits` has it", Values: []string{
			"connections", "connections_per_source", "connections_per_identity", "streams", "streams_per_source", "streams_per_identity", "new_streams", "memory", "keys", "keys_per_identity", "types_per_stream", "types_per_key", "names", "name_size", "key_names", "message_size", "node_size", "header_size", "requests", "request_timeout", "partial_size", "first_request", "send_timeout", "streams_per_connection", "idle_timeout", "pings", "peer_connections", "peer_streams", "operator_connections",
		}}},
		"xdsrelay.limits.connections":      {},
		"xdsrelay.limits.lag":              {},
		"xdsrelay.limits.memory":           {},
		"xdsrelay.limits.starting":         {},
		"xdsrelay.limits.starting.ceiling": {},

		"xdsrelay.authorize.refused": {
			{Name: "rule", Pattern: `[^"]*`, Meaning: "the name of a rule; empty for who matches none, or whose certificate is good no more"},
			label("reason", "denied", "no_rule", "failed", "untrusted"), label("again", "true", "false"),
		},

		"xdsrelay.downstream.handshakes.failed":    {{Name: "listener", Pattern: `.+`, Meaning: "a name in `listeners`, or `default`"}, {Name: "reason", Pattern: `[a-z_ ]+`, Meaning: "why, in a word or two"}},
		"xdsrelay.downstream.requests":             {variantLabel()},
		"xdsrelay.downstream.received":             {variantLabel()},
		"xdsrelay.upstream.requests":               {originLabel(), variantLabel()},
		"xdsrelay.upstream.request.size":           {originLabel(), variantLabel()},
		"xdsrelay.upstream.response.age":           {originLabel()},
		"xdsrelay.tls.certificate.expiry":          {useLabel()},
		"xdsrelay.tls.certificate.start":           {useLabel()},
		"xdsrelay.cache.resources":                 {typeLabel()},
		"xdsrelay.cache.demand.names":              {typeLabel()},
		"xdsrelay.cache.demand.names.fullest":      {},
		"xdsrelay.cache.demand.wildcards":          {typeLabel()},
		"xdsrelay.cache.subscriptions":             {typeLabel()},
		"xdsrelay.cache.keys.down.age":             {},
		"xdsrelay.key.clients":                     {{Name: "key", Pattern: `.+`, Meaning: "an aggregation key, as far as `telemetry.top_keys` allows"}},
		"xdsrelay.key.resources":                   {{Name: "key", Pattern: `.+`, Meaning: "an aggregation key, as far as `telemetry.top_keys` allows"}},
		"xdsrelay.tier.members":                    {label("state", "serving", "draining", "cut")},
		"xdsrelay.tier.members.age":                {},
		"xdsrelay.tier.clock.skew":                 {},
		"xdsrelay.tier.config.differs":             {label("section", "aggregation", "authorization", "upstream", "upstream.addresses", "removal_guard", "last_known_good", "tier")},
		"xdsrelay.tier.keys":                       {label("state", "owner", "follower", "alone", "for_peers")},
		"xdsrelay.downstream.clients":              {},
		"xdsrelay.downstream.states":               {typeLabel(), label("variant", "sotw", "delta"), label("state", "synced", "stale", "nacked", "not_sent", "unknown")},
		"xdsrelay.downstream.behind":               {typeLabel()},
		"xdsrelay.downstream.unacked":              {},
		"xdsrelay.downstream.send.time":            {typeLabel(), variantLabel()},
		"xdsrelay.downstream.propagation.duration": {typeLabel(), variantLabel()},
		"xdsrelay.downstream.body.build.duration":  {typeLabel(), variantLabel()},

		"xdsrelay.cache.keys":                   {label("state", "active", "idle")},
		"xdsrelay.cache.keys.down":              {},
		"xdsrelay.cache.size":                   {},
		"xdsrelay.cache.mass_removals":          {},
		"xdsrelay.cache.removal.holds":          {},
		"xdsrelay.cache.removals.held":          {},
		"xdsrelay.last_good.keys.stale":         {},
		"xdsrelay.downstream.streams":           {variantLabel(), serviceLabel},
		"xdsrelay.downstream.refusals":          {code},
		"xdsrelay.downstream.send_timeouts":     {},
		"xdsrelay.config.reads":                 {label("outcome", "applied", "unchanged", "refused")},
		"xdsrelay.config.refused":               {},
		"xdsrelay.config.restart.fields":        {},
		"xdsrelay.downstream.sent_away":         {label("reason", "surplus", "age", "memory")},
		"xdsrelay.downstream.turned_away":       {},
		"xdsrelay.downstream.ack.duration":      {typeLabel(), variantLabel()},
		"xdsrelay.downstream.responses":         {typeLabel(), variantLabel()},
		"xdsrelay.downstream.sent":              {typeLabel(), variantLabel()},
		"xdsrelay.downstream.compressed":        {typeLabel(), variantLabel()},
		"xdsrelay.downstream.saved":             {typeLabel(), variantLabel()},
		"xdsrelay.downstream.oversize":          {typeLabel(), variantLabel()},
		"xdsrelay.downstream.answers":           {typeLabel(), variantLabel(), label("outcome", "ack", "nack", "stale")},
		"xdsrelay.downstream.bodies.built":      {},
		"xdsrelay.downstream.bodies.shared":     {},
		"xdsrelay.downstream.bodies.compressed": {},

		"xdsrelay.downstream.load.streams":  {},
		"xdsrelay.downstream.load.reports":  {},
		"xdsrelay.downstream.load.clusters": {},
		"xdsrelay.downstream.load.size":     {},
		"xdsrelay.downstream.load.left_out": {},

		"xdsrelay.rest.polls":   {{Name: "type", Values: append(resource.TypeLabels(), "none"), Meaning: "types, or `none` for paths that are none's"}, {Name: "status", Pattern: `\d{3}`, Meaning: "HTTP status codes"}},
		"xdsrelay.rest.sent":    {{Name: "type", Values: append(resource.TypeLabels(), "none"), Meaning: "types, or `none` for paths that are none's"}, {Name: "status", Pattern: `\d{3}`, Meaning: "HTTP status codes"}},
		"xdsrelay.rest.waiting": {},

		"xdsrelay.upstream.streams":       {originLabel(), variantLabel()},
		"xdsrelay.upstream.types.apart":   {originLabel(), variantLabel()},
		"xdsrelay.upstream.reconnects":    {originLabel(), variantLabel()},
		"xdsrelay.upstream.names.shed":    {originLabel(), variantLabel()},
		"xdsrelay.upstream.responses":     {originLabel(), variantLabel(), typeLabel(), label("outcome", "ack", "nack", "unrequested")},
		"xdsrelay.upstream.response.size": {originLabel(), variantLabel(), typeLabel(), label("outcome", "ack", "nack", "unrequested")},
		"xdsrelay.upstream.load.streams":  {},
		"xdsrelay.upstream.load.reports":  {label("outcome", "sent", "unsent")},
		"xdsrelay.upstream.load.size":     {},

		"xdsrelay.origin.file.errors":  {originLabel(), label("reason", "unreadable", "malformed", "bad directory name", "duplicate name")},
		"xdsrelay.origin.file.reloads": {originLabel()},
		"xdsrelay.origin.files":        {originLabel(), label("state", "good", "bad")},

		"xdsrelay.tier.head.waits":    {label("outcome", "caught_up", "timed_out")},
		"xdsrelay.tier.head.claims":   {label("outcome", "ok", "failed")},
		"xdsrelay.tier.head.writes":   {label("outcome", "ok", "refused", "failed")},
		"xdsrelay.tier.head.behind":   {typeLabel()},
		"xdsrelay.tier.peers.refused": {},
		"xdsrelay.admin.refused":      {},

		"xdsrelay.redis.calls":         {call, label("outcome", "ok", "refused", "failed", "given_up", "skipped")},
		"xdsrelay.redis.call.duration": {call},
		"xdsrelay.redis.up":            {},

		"xdsrelay.last_good.writes":     {label("outcome", "ok", "failed", "fenced", "too_large", "unencrypted")},
		"xdsrelay.last_good.write.size": {},
		"xdsrelay.last_good.reads":      {label("outcome", "ok", "failed", "unusable", "old", "too_large")},
	}
	return m
}

// useLabel tells certificates apart.
func useLabel() Label {
	return Label{Name: "use", Pattern: `[a-z.]+(\[\d+\])?`, Meaning: "the section of the configuration that names the certificate"}
}
