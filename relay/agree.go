package relay

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	mathrand "math/rand/v2"
	"net/url"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/events"
	"xdsrelay/relay/logs"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/terms"
	"xdsrelay/shard"
)

// askTerms is the question for what the nodes must have in common, with ?salt= in
// hexadecimal; see package terms.
const (
	askTerms  = "terms"
	paramSalt = "salt"
)

// agreeEvery is how often the nodes are compared, but for jitter, and agreeSoon how long
// after a node came: it may not serve yet.
const (
	agreeEvery = 10 * time.Second
	agreeSoon  = time.Second
)

// termsAnswer is what a node answers.
type termsAnswer struct {
	Node  string            `json:"node"`
	Terms map[string]string `json:"terms"`
	// Clock is what its clock says, in ms of Unix time.
	Clock int64 `json:"clock,omitempty"`

	arrived time.Time // by the monotonic clock of this node
}

// Arrived implements [ops.Arriving].
func (t *termsAnswer) Arrived(at time.Time) { t.arrived = at }

// agreement is how far the nodes of the tier have in common what they must.
type agreement struct {
	mu sync.Mutex
	// Guarded by mu.
	all    []terms.Difference
	others map[string]int // nodes that differ from this one, by part
}

// differences are those that were found last.
func (a *agreement) differences() []terms.Difference {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.all)
}

// note takes in what nodes have answered, and returns what is new and what is over. Of a node
// that has not answered, and may be there, it stays as it was.
func (a *agreement) note(self string, answers []termsAnswer, there []shard.Member, now time.Time) (came, went []terms.Difference) {
	byNode := make(map[string]map[string]string)
	for _, one := range answers {
		byNode[one.Node] = one.Terms
	}
	found := terms.Compare(byNode)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range a.all {
		_, answered := byNode[d.Node]
		if !answered && slices.ContainsFunc(there, func(m shard.Member) bool { return m.Name == d.Node }) {
			found = append(found, d)
		}
	}
	for i := range found {
		d := &found[i]
		if k := slices.IndexFunc(a.all, func(o terms.Difference) bool { return o.Node == d.Node }); k < 0 {
			d.Since = now
		} else {
			d.Since = a.all[k].Since
		}
		if !slices.ContainsFunc(a.all, func(o terms.Difference) bool { return o.Same(d) }) {
			came = append(came, *d)
		}
	}
	for _, d := range a.all {
		if !slices.ContainsFunc(found, func(o terms.Difference) bool { return o.Node == d.Node }) {
			went = append(went, d)
		}
	}
	a.all, a.others = found, make(map[string]int)
	for part, mine := range byNode[self] {
		for _, theirs := range byNode {
			if other := theirs[part]; other != "" && other != mine {
				a.others[part]++
			}
		}
	}
	return came, went
}

// answerTerms answers what other nodes compare.
func (n *Node) answerTerms() {
	n.tier.Handle(askTerms, func(_ context.Context, q url.Values) (any, error) {
		salt, err := hex.DecodeString(q.Get(paramSalt))
		if err != nil || len(salt) < terms.LeastSalt {
			return nil, status.Errorf(codes.InvalidArgument, "%s: expected %d bytes or more in hexadecimal", paramSalt, terms.LeastSalt)
		}
		return termsAnswer{Node: n.name, Terms: terms.Of(n.settings.inForce(), n.keys.Marks()).Sealed(salt), Clock: n.clock.Now().UnixMilli()}, nil
	}, paramSalt)
}

// watchAgreement compares the nodes until ctx ends.
func (n *Node) watchAgreement(ctx context.Context) {
	if n.links == nil {
		return // on its own
	}
	for {
		changed := n.members.Changed()
		n.compareTerms(ctx)
		n.lookForVisits(ctx)
		pause := time.NewTimer(agreeEvery*9/10 + mathrand.N(agreeEvery/5))
		select {
		case <-ctx.Done():
		case <-pause.C:
			continue
		case <-changed:
			pause.Reset(agreeSoon)
			select {
			case <-ctx.Done():
			case <-pause.C:
				continue
			}
		}
		pause.Stop()
		return
	}
}

// askAllTerms asks all nodes, and returns by how much the clocks of those that answer are ahead of
// this node's, too.
func (n *Node) askAllTerms(ctx context.Context) (answers []termsAnswer, ahead map[string]time.Duration) {
	salt := make([]byte, terms.LeastSalt)
	_, _ = rand.Read(salt) // never fails
	asked, before := time.Now(), n.clock.Now()
	answers, _ = ops.AskAll[termsAnswer](ctx, n.everybody(), askTerms, url.Values{paramSalt: {hex.EncodeToString(salt)}}, nil)
	return answers, offsetsOf(answers, before, asked)
}

// compareTerms asks all nodes, and says what has changed.
func (n *Node) compareTerms(ctx context.Context) {
	answers, ahead := n.askAllTerms(ctx)
	if ctx.Err() != nil {
		return
	}
	n.compareClocks(ahead)
	came, went := n.agreement.note(n.name, answers, n.everybody().All(), time.Now())
	log := n.part(logs.Tier)
	for _, d := range came {
		log.Warn("config mismatch between nodes of the tier", events.Key, events.ConfigMismatch, "member", d.Node, "differs_from", d.From, "sections", d.Parts)
	}
	for _, d := range went {
		log.Info("config mismatch resolved, or the node left the tier", events.Key, events.ConfigMismatchResolved, "member", d.Node)
	}
}

// observeAgreement adds how many nodes differ from this one, and how far their clocks do.
func (n *Node) observeAgreement(meter metric.Meter) error {
	g := &gauges{meter: meter}
	differ := g.whole("xdsrelay.tier.config_mismatches", "Nodes of the tier whose configuration differs from this node's, by the section that differs.")
	skew := g.seconds("xdsrelay.tier.clock_skew", "Largest difference between the clocks of this node and of another node of the tier.")
	return g.read(func(o metric.Observer) {
		o.ObserveFloat64(skew, n.clocks.most().Seconds())
		n.agreement.mu.Lock()
		defer n.agreement.mu.Unlock()
		for _, part := range terms.Parts() {
			o.ObserveInt64(differ, int64(n.agreement.others[part]), by("section", part))
		}
	})
}
