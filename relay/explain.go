package relay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/authorize"
	"xdsrelay/relay/config"
	"xdsrelay/relay/yamlpos"
)

// KeyExplanation says whether a client is let in, and which rule gives it its
// aggregation key. Its String is a table for a terminal.
type KeyExplanation struct {
	aggregation.Explanation
	// Access is what the authorization rules say.
	Access authorize.Explanation
}

// ExplainKey works out the key of a client by the rules of a configuration. node
// is the client's Node in JSON, or a bootstrap that holds one; peer is an
// [aggregation.Peer] in JSON, empty for a client that proved nothing.
func ExplainKey(cfg *config.Config, node, peer []byte, version string) (KeyExplanation, error) {
	rules, err := aggregation.Compile(cfg.Aggregation.Rules, aggregation.Options{UserAgentVersion: version})
	if err != nil {
		return KeyExplanation{}, err
	}
	policy, err := authorize.Compile(cfg.Authorization.Policy())
	if err != nil {
		return KeyExplanation{}, err
	}
	return explainBy(rules, policy, node, peer)
}

// maxNodeFile bounds a file with a client's Node, in bytes.
const maxNodeFile = 4 << 20

// NodeJSON returns a client's Node, or a bootstrap that holds one, as JSON. It may be YAML, as
// the bootstrap of an Envoy is.
func NodeJSON(text []byte) ([]byte, error) {
	if len(text) > maxNodeFile {
		return nil, fmt.Errorf("has more than %d bytes, expected a Node or a bootstrap", maxNodeFile)
	}
	if start := bytes.TrimSpace(text); len(start) == 0 || bytes.HasPrefix(start, []byte("{")) {
		return text, nil // mistakes in it are reported as those of JSON
	}
	if !utf8.Valid(text) {
		return nil, errors.New("is not text, expected JSON or YAML")
	}
	out, err := yamlpos.ToJSON(text, yamlpos.Limits{Bytes: 16 * maxNodeFile, Values: maxNodeFile})
	if err != nil {
		return nil, fmt.Errorf("is neither JSON nor YAML: %w", err)
	}
	return out.Text, nil
}

// ParseNode reads a client's Node, or a bootstrap that holds one, as JSON or YAML.
func ParseNode(text []byte) (*corev3.Node, error) {
	node, err := NodeJSON(text)
	if err != nil {
		return nil, err
	}
	return aggregation.ParseNodeJSON(node)
}

// explainBy is [ExplainKey] with rules that are compiled.
func explainBy(rules *aggregation.Rules, policy *authorize.Policy, node, peer []byte) (KeyExplanation, error) {
	parsed, err := aggregation.ParseNodeJSON(node)
	if err != nil {
		return KeyExplanation{}, err
	}
	var claimed aggregation.Peer
	if len(peer) > 0 {
		d := json.NewDecoder(bytes.NewReader(peer))
		d.DisallowUnknownFields()
		if err := d.Decode(&claimed); err != nil {
			return KeyExplanation{}, fmt.Errorf("peer file: %w", err)
		}
		if _, err := d.Token(); err != io.EOF {
			return KeyExplanation{}, fmt.Errorf("peer file: more than one JSON value")
		}
	}
	return KeyExplanation{rules.Explain(parsed, claimed), policy.Explain(parsed, claimed)}, nil
}

// Refused tells whether the client is not let in, or gets no key.
func (ex KeyExplanation) Refused() bool { return ex.Refusal != nil || ex.Access.Refusal != nil }

// String is the explanation for a terminal: of the key, if the client is let in.
func (ex KeyExplanation) String() string {
	switch {
	case ex.Access.Refusal != nil:
		return ex.Access.String()
	case len(ex.Access.Rules) > 0:
		return ex.Access.String() + "\n" + ex.Explanation.String()
	}
	return ex.Explanation.String()
}

// MarshalJSON gives the key or the refusal, and what became of each rule.
func (ex KeyExplanation) MarshalJSON() ([]byte, error) {
	type ruleJSON struct {
		Rule    string   `json:"rule"`
		Outcome string   `json:"outcome"`
		Match   string   `json:"match"`
		Key     string   `json:"key"`
		Passes  []string `json:"passes"`
		Rollout string   `json:"rollout,omitempty"`
	}
	type refusalJSON struct {
		Code   string `json:"code"`
		Reason string `json:"reason"`
		Rule   string `json:"rule,omitempty"`
		Detail string `json:"detail"`
	}
	var out struct {
		Key     string          `json:"key,omitempty"`
		Rule    string          `json:"rule,omitempty"`
		Rollout string          `json:"rollout,omitempty"`
		Node    json.RawMessage `json:"upstream_node,omitempty"`
		Refusal *refusalJSON    `json:"refused,omitempty"`
		Rules   []ruleJSON      `json:"rules"`

		Authorize []authorize.RuleOutcome `json:"authorize,omitempty"`
	}
	out.Authorize = ex.Access.Rules
	for _, r := range ex.Rules {
		out.Rules = append(out.Rules, ruleJSON{r.Rule, string(r.Outcome), r.Match, r.Key, append([]string{}, r.Passes...), r.Rollout})
	}
	if r := ex.Access.Refusal; r != nil {
		out.Refusal = &refusalJSON{r.GRPCStatus().Code().String(), string(r.Reason), r.Rule, r.Error()}
		return json.Marshal(out)
	}
	if r := ex.Refusal; r != nil {
		out.Refusal = &refusalJSON{r.Code().String(), string(r.Reason), r.Rule, r.Detail}
		return json.Marshal(out)
	}
	node, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(ex.Result.Node)
	if err != nil {
		return nil, err
	}
	out.Key, out.Rule, out.Rollout, out.Node = string(ex.Result.Key), ex.Result.Rule, ex.Result.Rollout, node
	return json.Marshal(out)
}
