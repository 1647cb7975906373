package events

import (
	"log/slog"
	"slices"
)

// Key is the attribute of a line of the log that names the [Kind] of the event.
const Key = "event"

// Kind names a kind of event, like node.joined.
type Kind string

// LogValue returns the kind as a text of the log.
func (k Kind) LogValue() slog.Value { return slog.StringValue(string(k)) }

// The kinds of events.
const (
	NodeStarted      Kind = "node.started"
	NodeJoined       Kind = "node.joined"
	NodeDraining     Kind = "node.draining"
	NodeLeft         Kind = "node.left"
	NodeDisappeared  Kind = "node.disappeared"
	NodeNameConflict Kind = "node.name_conflict"
	NodeCutOff       Kind = "node.cut_off"
	NodeReconnected  Kind = "node.reconnected"
	NodeNearLimit    Kind = "node.memory_near_limit"
	NodeBelowLimit   Kind = "node.memory_below_limit"

	ControlPlaneLost Kind = "control_plane.lost"
	ControlPlaneBack Kind = "control_plane.back"
	StreamFailed     Kind = "control_plane.stream_failed"
	ResponseRejected Kind = "control_plane.response_rejected"

	ConfigApplied          Kind = "config.applied"
	ConfigRejected         Kind = "config.rejected"
	ConfigRestartRequired  Kind = "config.restart_required"
	ConfigMismatch         Kind = "config.mismatch"
	ConfigMismatchResolved Kind = "config.mismatch_resolved"

	OwnerMoved Kind = "owner.moved"

	RedisLost    Kind = "redis.lost"
	RedisDenied  Kind = "redis.denied"
	RedisBack    Kind = "redis.back"
	RedisRefuses Kind = "redis.refuses"
	RedisAccepts Kind = "redis.accepts"

	GuardEngaged  Kind = "removal_guard.engaged"
	GuardApproved Kind = "removal_guard.approved"
	GuardExpired  Kind = "removal_guard.expired"
	MassRemoval   Kind = "removals.applied"

	RolloutStarted  Kind = "rollout.started"
	RolloutFailed   Kind = "rollout.failed"
	RolloutPromoted Kind = "rollout.promoted"

	LastGoodNotStored Kind = "last_known_good.not_stored"

	CertificateReloaded Kind = "certificate.reloaded"
	CertificateExpiring Kind = "certificate.expiring"
	CertificateExpired  Kind = "certificate.expired"
	TrustReloaded       Kind = "certificate.authorities_reloaded"
	FilesUnusable       Kind = "files.unusable"
	FilesUsable         Kind = "files.usable"

	ClientsShed       Kind = "clients.shed"
	ClientsRebalanced Kind = "clients.rebalanced"

	ClientsRejected     Kind = "clients.rejected"
	ClientsUnauthorized Kind = "clients.unauthorized"
	ResponseTooLarge    Kind = "clients.response_too_large"
	PeersRejected       Kind = "peers.rejected"

	ClockDiffers Kind = "clock.differs"
	ClockAgrees  Kind = "clock.agrees"

	WarningStarted Kind = "warning.started"
	WarningEnded   Kind = "warning.ended"

	OperatorCommand Kind = "operator.command"
)

// Severity says how much an event matters.
type Severity string

// The severities: normal operation; something that may need action; something that does.
const (
	Info    Severity = "info"
	Warning Severity = "warning"
	Error   Severity = "error"
)

// About is the kind of thing that an event is about.
type About string

// The things that events are about.
const (
	AboutNode         About = "node"
	AboutControlPlane About = "control plane"
	AboutKey          About = "key"
	AboutConfig       About = "configuration"
	AboutRedis        About = "redis"
	AboutFile         About = "file"
	AboutClients      About = "clients"
	AboutOrder        About = "command"
	AboutWarning      About = "warning"
)

// Combining says whether facts become one event.
type Combining string

const (
	// Single makes an event of each fact.
	Single Combining = ""
	// PerKeys makes one event of the same fact about several keys within [CombineTime]. The
	// event lists the first keys, and its attribute keys counts them. One node reports each key,
	// so the counts of several nodes add up.
	PerKeys Combining = "keys"
	// PerSharedKeys is PerKeys where several nodes report the same keys.
	PerSharedKeys Combining = "shared keys"
)

// ownNode reports whether the subject is the node that recorded the event.
func (s *Spec) ownNode() bool {
	return s.Name == "" && (s.About == AboutNode || s.About == AboutClients) || s.Kind == OperatorCommand
}

// Spec is a row of the table of kinds.
type Spec struct {
	Kind     Kind
	Severity Severity
	// About and Name are the subject: what it is, and the attribute with its name. Without Name
	// it is the node that recorded the event, or the only thing of its sort.
	About About
	Name  string
	// Text is the text of an event; see [expand] for its form.
	Text string
	// Attributes are those of the log line that the event keeps.
	Attributes []string
	// Same are the attributes that are equal if two nodes saw the same fact, besides kind and
	// subject. An event whose subject is its own node is never the same as that of another.
	Same []string
	// Combining says whether facts about several keys are one event. Sums are the attributes
	// that are added up then.
	Combining Combining
	Sums      []string
}

// specs is the table by kind.
var specs = func() map[Kind]*Spec {
	all := make(map[Kind]*Spec, len(table))
	for i := range table {
		all[table[i].Kind] = &table[i]
	}
	return all
}()

// Kinds returns the table of all kinds.
func Kinds() []Spec { return slices.Clone(table) }

// Of returns the row of a kind, and whether there is one.
func Of(kind Kind) (Spec, bool) {
	s, known := specs[kind]
	if !known {
		return Spec{}, false
	}
	return *s, true
}
