package aggregation

import (
	"errors"
	"fmt"

	"cel.dev/cel-go/cel"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
)

// Rule is one rule of the configuration.
type Rule struct {
	// The name of the rule in errors, refusals and the log; empty means "#" and its
	// position, from 1. Unique.
	Name string `yaml:"name"`
	// A CEL expression of type bool; empty means that the rule matches every client.
	Match string `yaml:"match"`
	// A CEL expression of type string, not empty. Required.
	Key string `yaml:"key"`
	// Further Node fields that the relay passes to the control plane, as in an expression
	// without "node.": user_agent_name, locality.region, metadata.team. Clients that
	// differ in one of them have different upstream streams (K4, K6).
	PassFields []string `yaml:"pass_fields"`
	// The Node field, id or cluster, that carries the text of key to the control plane.
	// It then receives this text and pass_fields, and none of the fields that key reads.
	// Needed by a key made of parts of a field: without it, clients that differ in the
	// whole field have different upstream streams. Empty passes the fields themselves.
	NodeField string `yaml:"node_field"`
	// Shares secrets between all clients of a key. Without it, clients with a verified
	// identity share them only with clients of the same identity: the control plane
	// receives a stream for each identity, with the identity in its Node.
	ShareSecrets bool `yaml:"share_secrets"`
	// The policy by which changes are released to the clients of this rule: a name in
	// rollout.policies, or a preset (quick, standard, careful). Empty means that all
	// changes pass at once.
	Rollout string `yaml:"rollout" json:",omitempty"`
}

// NameAt returns the name of the rule at a position of a list, from 0, as in [Result.Rule].
func (r Rule) NameAt(i int) string {
	if r.Name == "" {
		return fmt.Sprintf("#%d", i+1)
	}
	return r.Name
}

// DefaultRule is the rule of an empty list: clients of one cluster are a group.
func DefaultRule() Rule { return Rule{Name: "default", Key: "node.cluster"} }

// MaxNodeBytes bounds the encoded size of a Node that rules are run over. An Envoy
// that lists all of its extensions stays well below.
const MaxNodeBytes = 1 << 20

// MaxNodeName bounds the id and the cluster of a Node, in bytes each: they are kept
// for as long as the client's stream lives.
const MaxNodeName = 4 << 10

// Options are what the rules need to know of the relay.
type Options struct {
	// UserAgentVersion is the relay's version, shown to the control plane where a
	// rule does not pass the client's own. Empty means that none is shown.
	UserAgentVersion string
	// CostLimit ends the evaluation of one expression, in cel-go's cost units
	// (about one per operation, more for long strings); 0 means 20,000.
	CostLimit uint64
}

// Rules is a compiled rule list. It is never changed and safe for concurrent use.
type Rules struct {
	rules            []rule
	userAgentVersion string
}

// rule is a compiled Rule.
type rule struct {
	config   Rule
	name     string
	match    cel.Program // nil: always
	key      cel.Program
	analysis        // of the key expression, with the paths of the pass list added
	mark     string // see analysis.mark
	marked   bool   // false: the mark is a digest
	reads    Reads  // of match, key and the pass list
}

// Compile checks and compiles a rule list; an empty one means [DefaultRule]. The
// error joins a [*CompileError] for each mistake found.
func Compile(list []Rule, opts Options) (*Rules, error) {
	if len(list) == 0 {
		list = []Rule{DefaultRule()}
	}
	if opts.CostLimit == 0 {
		opts.CostLimit = defaultCost
	}
	env, err := sharedEnv()
	if err != nil {
		return nil, err
	}
	out := &Rules{userAgentVersion: opts.UserAgentVersion}
	var errs []error
	names := make(map[string]int, len(list))
	for i, config := range list {
		c := compiler{env: env, cost: opts.CostLimit, index: i, config: config}
		r := c.compile()
		if first, taken := names[r.name]; taken {
			c.fail("name", 0, "", issue{message: fmt.Sprintf("%q is the name of rules[%d] already", r.name, first)})
		} else {
			names[r.name] = i
		}
		errs = append(errs, c.errs...)
		out.rules = append(out.rules, r)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return out, nil
}

// Result is a client's group.
type Result struct {
	Rule string // name of the rule that matched
	Key  Key
	// Node is the group's upstream Node (K4), the same for every member. It shares
	// nothing with the client's Node.
	Node *corev3.Node
	// ShareSecrets and Rollout are those of the rule.
	ShareSecrets bool
	Rollout      string
}

// Resolve finds the group of a client from the Node of its stream's first request
// (B1) and its authenticated peer. It neither changes nor keeps node. The error is
// always a [*Refusal].
func (rs *Rules) Resolve(node *corev3.Node, peer Peer) (Result, error) {
	res, refusal := rs.resolve(node, peer, nil, nil)
	if refusal != nil {
		return Result{}, refusal
	}
	return res, nil
}

// resolve is Resolve, reporting each rule to outcome (if not nil) that it tries. kept is that of
// [Rules.ResolveKept]; nil keeps everything.
func (rs *Rules) resolve(node *corev3.Node, peer Peer, kept func(Reads) bool, outcome func(i int, matched bool, err error)) (Result, *Refusal) {
	if refusal := vet(node); refusal != nil {
		return Result{}, refusal
	}
	payload, err := payloadFeatures(node.GetClientFeatures())
	if err != nil {
		return Result{}, &Refusal{Reason: BadNode, Detail: err.Error()}
	}
	vars := values(node, peer)
	for i := range rs.rules {
		r := &rs.rules[i]
		if kept != nil && !kept(r.reads) {
			return Result{}, notKept
		}
		matched, err := r.matches(vars)
		if outcome != nil {
			outcome(i, matched, err)
		}
		if err != nil {
			return Result{}, &Refusal{Rule: r.name, Reason: RuleFailed, Detail: "match: " + oneLine(err.Error())}
		}
		if matched {
			return rs.apply(r, node, vars, payload)
		}
	}
	return Result{}, &Refusal{Reason: NoRule, Detail: "no aggregation rule matches this client"}
}

// Vet refuses a Node that no rule is to be run over. The error is nil or a [*Refusal].
func Vet(node *corev3.Node) error {
	if refusal := vet(node); refusal != nil {
		return refusal
	}
	return nil
}

func vet(node *corev3.Node) *Refusal {
	if node.GetId() == "" {
		return &Refusal{Reason: NoNodeID, Detail: "the first request has no node id"} // B1
	}
	if n := proto.Size(node); n > MaxNodeBytes {
		return &Refusal{Reason: BadNode, Detail: fmt.Sprintf("the node has %d bytes, expected at most %d", n, MaxNodeBytes)}
	}
	if n := len(node.GetId()); n > MaxNodeName {
		return &Refusal{Reason: BadNode, Detail: fmt.Sprintf("the node id has %d bytes, expected at most %d", n, MaxNodeName)}
	}
	if n := len(node.GetCluster()); n > MaxNodeName {
		return &Refusal{Reason: BadNode, Detail: fmt.Sprintf("the node's cluster has %d bytes, expected at most %d", n, MaxNodeName)}
	}
	return nil
}

func (r *rule) matches(vars map[string]any) (bool, error) {
	if r.match == nil {
		return true, nil
	}
	return evalBool(r.match, vars)
}

// apply makes key and Node by the rule that matched.
func (rs *Rules) apply(r *rule, node *corev3.Node, vars map[string]any, payload []string) (Result, *Refusal) {
	refuse := func(reason Reason, detail string) (Result, *Refusal) {
		return Result{}, &Refusal{Rule: r.name, Reason: reason, Detail: "key: " + oneLine(detail)}
	}
	text, err := evalString(r.key, vars)
	if err != nil {
		return refuse(RuleFailed, err.Error())
	}
	if text == "" {
		return refuse(EmptyKey, "is empty for this client")
	}
	if err := checkText(text); err != nil {
		return refuse(BadKey, err.Error())
	}
	passed := copyPassed(r.paths, node)
	r.config.show(passed, text)
	mark := r.mark
	if !r.marked {
		mark = digestMark(r.paths, passed)
	}
	key := Key(escape(text) + mark + featureSuffix(payload))
	if len(key) > MaxKeyLen {
		return refuse(BadKey, fmt.Sprintf("the key has %d bytes with its marks, expected at most %d", len(key), MaxKeyLen))
	}
	return Result{Rule: r.name, Key: key, ShareSecrets: r.config.ShareSecrets, Rollout: r.config.Rollout, Node: finish(passed, r.paths, key, rs.userAgentVersion, payload)}, nil
}
