package telemetry

import "xdsrelay/relay/resource"

// Label is an attribute of the measurements of an instrument. No label has the name of a client, a
// key or a resource, unless telemetry.top_keys asks for the largest keys.
type Label struct {
	Name string
	// Values are all values. Where they cannot be listed, Pattern is the regular expression of one,
	// and Meaning describes them.
	Values  []string
	Pattern string
	Meaning string
}

// label lists the values of a label.
func label(name string, values ...string) Label { return Label{Name: name, Values: values} }

// Labels that several instruments have.
func typeLabel() Label {
	return Label{Name: "type", Values: resource.TypeLabels(), Meaning: "resource types"}
}

func variantLabel() Label { return label("variant", "sotw", "delta", "peer") }

// upstreamLabel tells upstreams apart where there are several.
func upstreamLabel() Label {
	return Label{Name: "upstream", Pattern: `[^"]+`, Meaning: "a name in `upstreams`, `default` for `upstream`, or `peer` for other nodes of the tier"}
}

// rejectionLabels are those of the one metric of all rejections.
func rejectionLabels() []Label {
	return []Label{
		{Name: "where", Values: []string{"connection", "stream", "request", "poll", "authorization", "recheck", "client", "peer", "admin"}, Meaning: "what was rejected; see [Rejections](#rejections)"},
		{Name: "reason", Pattern: `[a-z][a-z0-9_]*`, Meaning: "of `xdsrelay.rejections`: see [Rejections](#rejections)"},
	}
}

// pollLabels are those of polls.
func pollLabels() []Label {
	return []Label{
		{Name: "type", Values: append(resource.TypeLabels(), "none"), Meaning: "of polls: resource types, or `none` for other paths"},
		{Name: "status", Pattern: `\d{3}`, Meaning: "HTTP status codes"},
	}
}

// certificateLabel tells certificates apart.
func certificateLabel() Label {
	return Label{Name: "use", Pattern: `[a-z_.]+(\[\d+\])?`, Meaning: "the configuration section that names the certificate"}
}

// keyLabel is the only label with the names of keys.
func keyLabel() Label {
	return Label{Name: "key", Pattern: `.+`, Meaning: "an aggregation key, within `telemetry.top_keys`"}
}

// labels are those of each instrument. A test holds that each instrument is listed, and has no
// other labels.
func labels() map[string][]Label {
	service := Label{Name: "service", Values: append([]string{"ads", "ads_v2"}, resource.TypeLabels()...), Meaning: "`ads`, `ads_v2`, or the resource type of a per-type service"}
	call := Label{Name: "call", Meaning: "the purpose of a call to Redis", Values: []string{
		"del", "get", "head_advance", "head_claim", "head_look", "head_read", "head_stamp", "head_write", "last_known_good_exists", "last_known_good_load",
		"last_known_good_marks", "last_known_good_save", "ledger_read", "ledger_write", "node_leave", "node_renew", "publish", "set", "try",
	}}
	section := Label{Name: "section", Pattern: `[a-z_.]+`, Meaning: "a configuration section that all nodes must share"}
	upstream := []Label{upstreamLabel(), variantLabel()}
	response := []Label{upstreamLabel(), variantLabel(), typeLabel(), label("outcome", "ack", "nack", "unrequested")}
	typeVariant := []Label{typeLabel(), variantLabel()}
	return map[string][]Label{
		"xdsrelay.build.info": {
			{Name: "version", Pattern: `.+`, Meaning: "of the program"},
			{Name: "go", Pattern: `go.+|devel.*`, Meaning: "version of Go"},
		},
		"xdsrelay.rejections": rejectionLabels(),

		"xdsrelay.cache.keys":                        {label("state", "active", "idle")},
		"xdsrelay.cache.disconnected_keys":           {},
		"xdsrelay.cache.oldest_disconnect_timestamp": {},
		"xdsrelay.cache.resources":                   {typeLabel()},
		"xdsrelay.cache.size":                        {},
		"xdsrelay.cache.subscriptions":               {typeLabel()},

		"xdsrelay.config.last_reload_successful":        {},
		"xdsrelay.config.last_reload_success_timestamp": {},
		"xdsrelay.config.reloads":                       {label("outcome", "applied", "unchanged", "rejected")},
		"xdsrelay.config.restart_required_fields":       {},

		"xdsrelay.directory.file_errors": {upstreamLabel(), label("reason", "unreadable", "malformed", "bad_directory_name", "duplicate_name")},
		"xdsrelay.directory.files":       {upstreamLabel(), label("state", "valid", "invalid")},
		"xdsrelay.directory.reloads":     {upstreamLabel()},

		"xdsrelay.downstream.ack.duration":          typeVariant,
		"xdsrelay.downstream.acknowledgments":       {typeLabel(), variantLabel(), label("outcome", "ack", "nack", "stale")},
		"xdsrelay.downstream.awaiting_ack":          {},
		"xdsrelay.downstream.bodies.built":          {},
		"xdsrelay.downstream.bodies.compressed":     {},
		"xdsrelay.downstream.bodies.reused":         {},
		"xdsrelay.downstream.body.build.duration":   typeVariant,
		"xdsrelay.downstream.client_states":         {typeLabel(), label("variant", "sotw", "delta"), label("state", "synced", "stale", "nacked", "not_sent", "unknown")},
		"xdsrelay.downstream.clients":               {},
		"xdsrelay.downstream.compressed_responses":  typeVariant,
		"xdsrelay.downstream.compression.saved":     typeVariant,
		"xdsrelay.downstream.connections":           {},
		"xdsrelay.downstream.delayed_requests":      {},
		"xdsrelay.downstream.drained_streams":       {label("reason", "rebalanced", "max_age", "former_rules")},
		"xdsrelay.downstream.former_rules_streams":  {label("state", "key_changes", "no_key", "unknown", "key_stays", "unchecked")},
		"xdsrelay.downstream.generation_lag":        {typeLabel()},
		"xdsrelay.downstream.load.clusters":         {},
		"xdsrelay.downstream.load.dropped":          {},
		"xdsrelay.downstream.load.received":         {},
		"xdsrelay.downstream.load.reports":          {},
		"xdsrelay.downstream.load.streams":          {},
		"xdsrelay.downstream.oversize_responses":    typeVariant,
		"xdsrelay.downstream.propagation.duration":  typeVariant,
		"xdsrelay.downstream.received":              {variantLabel()},
		"xdsrelay.downstream.requests":              {variantLabel()},
		"xdsrelay.downstream.responses":             typeVariant,
		"xdsrelay.downstream.send.time":             typeVariant,
		"xdsrelay.downstream.sent":                  typeVariant,
		"xdsrelay.downstream.streams":               {variantLabel(), service},
		"xdsrelay.downstream.syncing_streams":       {},
		"xdsrelay.downstream.syncing_streams_limit": {},

		"xdsrelay.key.clients":   {keyLabel()},
		"xdsrelay.key.resources": {keyLabel()},

		"xdsrelay.last_known_good.reads":            {label("outcome", "ok", "failed", "unusable", "expired", "too_large")},
		"xdsrelay.last_known_good.unconfirmed_keys": {},
		"xdsrelay.last_known_good.writes":           {label("outcome", "ok", "failed", "fenced", "too_large", "unencrypted")},
		"xdsrelay.last_known_good.written":          {},

		"xdsrelay.memory.utilization": {},
		"xdsrelay.scheduling.latency": {},

		"xdsrelay.redis.call.duration": {call},
		"xdsrelay.redis.calls":         {call, label("outcome", "ok", "error", "no_answer", "canceled", "skipped")},
		"xdsrelay.redis.up":            {},

		"xdsrelay.removal_guard.held_resources": {},
		"xdsrelay.removal_guard.holds":          {},
		"xdsrelay.removal_guard.mass_removals":  {},

		"xdsrelay.rest.polls":         pollLabels(),
		"xdsrelay.rest.sent":          pollLabels(),
		"xdsrelay.rest.waiting_polls": {},

		"xdsrelay.rollout.active":                   {label("state", "settling", "scouting", "stepping", "proving", "held")},
		"xdsrelay.rollout.breaker_open":             {},
		"xdsrelay.rollout.ended":                    {label("outcome", "good", "failed", "aborted", "skipped", "undone", "superseded", "withdrawn", "dropped")},
		"xdsrelay.rollout.event_retries":            {},
		"xdsrelay.rollout.events":                   {label("result", "delivered", "rejected", "dropped")},
		"xdsrelay.rollout.exposed_clients":          {},
		"xdsrelay.rollout.freezes":                  {},
		"xdsrelay.rollout.hold.duration":            {},
		"xdsrelay.rollout.observed_ended":           {label("outcome", "good", "failed", "superseded", "withdrawn", "dropped")},
		"xdsrelay.rollout.observed_verdicts":        {label("signal", "answers", "nacks", "unanswered", "lost", "errors", "check"), label("outcome", "pass", "fail", "no_data", "not_measured")},
		"xdsrelay.rollout.oldest_pending_timestamp": {},
		"xdsrelay.rollout.oldest_wait_timestamp":    {label("reason", "approval", "budget", "breaker", "clients", "bake", "data")},
		"xdsrelay.rollout.overdue_keys":             {},
		"xdsrelay.rollout.passed":                   {label("reason", "ttl", "collection", "requested", "first")},
		"xdsrelay.rollout.pending_resources":        {},
		"xdsrelay.rollout.pending_size":             {},
		"xdsrelay.rollout.queued_events":            {},
		"xdsrelay.rollout.skipped_checks":           {},
		"xdsrelay.rollout.started":                  {},
		"xdsrelay.rollout.check_answers":            {label("system", "prometheus", "webhook"), label("answer", "pass", "fail", "wait", "empty", "unreachable")},
		"xdsrelay.rollout.suspended_keys":           {},
		"xdsrelay.rollout.verdicts":                 {label("signal", "answers", "nacks", "unanswered", "lost", "errors", "check"), label("outcome", "pass", "fail", "no_data", "not_measured")},
		"xdsrelay.rollout.waiting_keys":             {label("reason", "approval", "budget", "breaker", "clients", "bake", "data")},

		"xdsrelay.tier.clock_skew":             {},
		"xdsrelay.tier.config_mismatches":      {section},
		"xdsrelay.tier.generation_lag":         {typeLabel()},
		"xdsrelay.tier.head.claims":            {label("outcome", "ok", "failed")},
		"xdsrelay.tier.head.waits":             {label("outcome", "caught_up", "timed_out")},
		"xdsrelay.tier.head.writes":            {label("outcome", "ok", "conflict", "failed")},
		"xdsrelay.tier.keys":                   {label("state", "owner", "follower", "fallback", "for_peers")},
		"xdsrelay.tier.last_refresh_timestamp": {},
		"xdsrelay.tier.nodes":                  {label("state", "serving", "draining", "disconnected")},

		"xdsrelay.tls.certificate_not_after_timestamp":  {certificateLabel()},
		"xdsrelay.tls.certificate_not_before_timestamp": {certificateLabel()},

		"xdsrelay.upstream.last_response_timestamp": {upstreamLabel()},
		"xdsrelay.upstream.load.reports":            {label("outcome", "sent", "unsent")},
		"xdsrelay.upstream.load.sent":               {},
		"xdsrelay.upstream.load.streams":            {},
		"xdsrelay.upstream.names.utilization":       {},
		"xdsrelay.upstream.quarantined_types":       upstream,
		"xdsrelay.upstream.received":                response,
		"xdsrelay.upstream.reconnects":              upstream,
		"xdsrelay.upstream.requests":                upstream,
		"xdsrelay.upstream.responses":               response,
		"xdsrelay.upstream.sent":                    upstream,
		"xdsrelay.upstream.shed_names":              upstream,
		"xdsrelay.upstream.streams":                 upstream,
		"xdsrelay.upstream.subscribed_names":        {typeLabel()},
		"xdsrelay.upstream.wildcard_subscriptions":  {typeLabel()},
	}
}
