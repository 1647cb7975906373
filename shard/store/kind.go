package store

// Kind is a kind of value that the program stores in Redis. All are listed here, so that tests
// reach the decoder of each: others may write to Redis, too.
type Kind uint8

// The kinds of values.
const (
	// MemberRecords is a hash of the records that nodes write about themselves, by name of the
	// node.
	MemberRecords Kind = iota
	// TierHead is a hash of the epoch of a key and of its tier heads, by type.
	TierHead
	// HeadStamps is a hash of a stamp for each bucket of keys. A stamp changes with each change of
	// a tier head of these keys.
	HeadStamps
	// LastGoodMarks is a hash of marks of the last known good records of a key, by type.
	LastGoodMarks
	// LastGoodRecord is a string: the last known good record of a key and a type.
	LastGoodRecord
	// RolloutRecord is a hash: what was decided about the newest revision of a key.
	RolloutRecord
	// RolloutBudget is a hash: which keys may show revisions that are not proven to how many clients.
	RolloutBudget
	// RolloutOrders is a hash: which keys operators have frozen, and which are held at an earlier revision.
	RolloutOrders

	kinds // the number of kinds
)

// Kinds returns all kinds.
func Kinds() (all []Kind) {
	for k := range kinds {
		all = append(all, k)
	}
	return all
}

// label returns the part of a name after the tag.
func (k Kind) label() string {
	return [kinds]string{TierHead: "head", LastGoodMarks: "good", LastGoodRecord: "good", RolloutRecord: "rollout", RolloutBudget: "budget", RolloutOrders: "orders"}[k]
}

func (k Kind) String() string {
	return [kinds]string{
		MemberRecords: "members", TierHead: "tier heads of a key", HeadStamps: "stamps of tier heads", LastGoodMarks: "marks of last known good records", LastGoodRecord: "last known good record",
		RolloutRecord: "rollout record of a key", RolloutBudget: "budget of rollouts", RolloutOrders: "orders of operators",
	}[k]
}

// Channel is a channel of hints.
type Channel uint8

// The channels.
const (
	// MemberHints say that the record of a member has changed.
	MemberHints Channel = iota
	// HeadHints name keys whose tier heads have changed. The channel has parts; hints of earlier
	// versions are on the channel itself.
	HeadHints

	channels // the number of channels
)

// Channels returns all channels.
func Channels() (all []Channel) {
	for c := range channels {
		all = append(all, c)
	}
	return all
}

func (c Channel) String() string {
	return [channels]string{MemberHints: "members", HeadHints: "heads"}[c]
}
