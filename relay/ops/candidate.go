package ops

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/authorize"
	"xdsrelay/relay/config"
)

// Bounds of a [Candidate]: bytes of JSON, and rules of each kind.
const (
	MaxCandidate = 512 << 10
	mostRules    = 1000
)

// Candidate is what nodes have to know of a configuration in order to say what it would change: its
// rules and limits, and digests of all fields.
type Candidate struct {
	// Rules are the aggregation rules; empty means the rule that applies without any.
	Rules []CandidateRule `json:"rules"`
	// Authorization are the authorization rules; empty allows all clients.
	Authorization []CandidateAccess `json:"authorization,omitempty"`
	Limits        CandidateLimits   `json:"limits,omitzero"`
	// Fields are the digests of all fields, by path, with Salt, in hexadecimal; see [config.Seals].
	// Without them, no fields are compared.
	Fields map[string]string `json:"fields,omitempty"`
	Salt   string            `json:"salt,omitempty"`
}

// CandidateRule is an [aggregation.Rule].
type CandidateRule struct {
	Name         string   `json:"name,omitempty"`
	Match        string   `json:"match,omitempty"`
	Key          string   `json:"key"`
	PassFields   []string `json:"pass_fields,omitempty"`
	NodeField    string   `json:"node_field,omitempty"`
	ShareSecrets bool     `json:"share_secrets,omitempty"`
	Rollout      string   `json:"rollout,omitempty"`
}

// CandidateAccess is an [authorize.Rule].
type CandidateAccess struct {
	Name  string `json:"name,omitempty"`
	Match string `json:"match,omitempty"`
	Deny  bool   `json:"deny,omitempty"`
}

// CandidateLimits are the limits that can be compared with what clients use now. 0 is no limit.
type CandidateLimits struct {
	Connections            int `json:"max_connections,omitempty"`
	ConnectionsPerSource   int `json:"max_connections_per_source,omitempty"`
	ConnectionsPerIdentity int `json:"max_connections_per_identity,omitempty"`
	Streams                int `json:"max_streams,omitempty"`
	StreamsPerSource       int `json:"max_streams_per_source,omitempty"`
	StreamsPerIdentity     int `json:"max_streams_per_identity,omitempty"`
	Keys                   int `json:"max_keys,omitempty"`
	KeysPerIdentity        int `json:"max_keys_per_identity,omitempty"`
}

// CandidateOf is the candidate of a configuration.
func CandidateOf(cfg *config.Config, salt []byte) *Candidate {
	c := &Candidate{Rules: []CandidateRule{}, Authorization: []CandidateAccess{}, Fields: config.Seals(cfg, salt), Salt: hex.EncodeToString(salt)}
	for _, r := range cfg.Aggregation.Rules {
		c.Rules = append(c.Rules, CandidateRule(r))
	}
	for _, r := range cfg.Authorization.Policy() {
		c.Authorization = append(c.Authorization, CandidateAccess(r))
	}
	l := cfg.Limits
	c.Limits = CandidateLimits{
		l.MaxConnections, l.MaxConnectionsPerSource, l.MaxConnectionsPerIdentity,
		l.MaxStreams, l.MaxStreamsPerSource, l.MaxStreamsPerIdentity, l.MaxKeys, l.MaxKeysPerIdentity,
	}
	return c
}

// ParseCandidate reads a candidate from JSON.
func ParseCandidate(text []byte) (*Candidate, error) {
	if len(text) > MaxCandidate {
		return nil, fmt.Errorf("the configuration has %d bytes of JSON, expected at most %d", len(text), MaxCandidate)
	}
	var c Candidate
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return nil, fmt.Errorf("the configuration is not valid JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the configuration has more than one JSON value")
	}
	if n := max(len(c.Rules), len(c.Authorization)); n > mostRules {
		return nil, fmt.Errorf("the configuration has %d rules of one kind, expected at most %d", n, mostRules)
	}
	if salt, err := hex.DecodeString(c.Salt); len(c.Fields) > 0 && (err != nil || len(salt) < config.LeastSalt) {
		return nil, fmt.Errorf("salt: expected at least %d bytes in hexadecimal", config.LeastSalt)
	}
	return &c, nil
}

// compiled returns the rules in a form that can be applied.
func (c *Candidate) compiled() (*aggregation.Rules, *authorize.Policy, error) {
	var rules []aggregation.Rule
	for _, r := range c.Rules {
		rules = append(rules, aggregation.Rule(r))
	}
	var access []authorize.Rule
	for _, r := range c.Authorization {
		access = append(access, authorize.Rule(r))
	}
	keys, err := aggregation.Compile(rules, aggregation.Options{})
	policy, err2 := authorize.Compile(access)
	return keys, policy, errors.Join(err, err2)
}

// changes compares the fields with those of a node that was started with first and uses current.
func (c *Candidate) changes(first, current *config.Config) (live, restart []string) {
	if len(c.Fields) == 0 {
		return nil, nil
	}
	salt, _ := hex.DecodeString(c.Salt) // ParseCandidate has read it
	live, _ = config.ChangedSeals(current, c.Fields, salt)
	_, restart = config.ChangedSeals(first, c.Fields, salt)
	return live, restart
}
