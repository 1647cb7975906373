package rollout

// MaxAsked bounds the clients of an arm that a question names.
const MaxAsked = 200

// Question is what another system is asked about a step, for a [Check].
type Question struct {
	Check                 *Check
	Policy, Key, Revision string
	// Step is 0 for the scouts. The last of Steps is the one to all clients, which have the Share.
	Step, Steps int
	Share       Share
	// Final says that the bake is the final one.
	Final bool
	// Canaries and Control are connected clients of both arms.
	Canaries, Control Asked
}

// Asked are the clients of an arm: their number, and the node ids of at most [MaxAsked] of them. An id is a
// claim of the client.
type Asked struct {
	Clients int
	IDs     []string
}

// Reply is how another system has reacted to a question.
type Reply uint8

const (
	// NotAsked: it has not been asked in this step.
	NotAsked Reply = iota
	// Asking: an answer is on its way, or the next question is due.
	Asking
	// Unreachable: it has not answered, or its answer cannot be read.
	Unreachable
	// Empty: its answer has no value.
	Empty
	// MoreTime: it answers that the step has to wait.
	MoreTime
	// Decisive: it answers that the step passes, or fails.
	Decisive
	Replies
)

var replyNames = [Replies]string{"not asked", "asking", "unreachable", "empty", "wait", "decisive"}

func (r Reply) String() string { return replyNames[r] }

// CheckResult is the last answer to a check.
type CheckResult struct {
	Name    string
	Outcome Outcome
	Text    string // the value, or the reason
	Reply   Reply
}

// isMissing reports whether there is no answer, and none is on its way.
func (r *CheckResult) isMissing() bool { return r.Reply != Asking && r.Reply != MoreTime }

// Applies reports whether a check can have an answer in a bake: a query that compares canaries with the
// control group has none in the final bake, when all clients have the revision.
func (k *Check) Applies(final bool) bool {
	if !final || k.Query == "" {
		return true
	}
	q, err := ParseQuery(k.Query)
	return err != nil || !q.uses(placeControl)
}
