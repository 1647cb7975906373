package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/events"
	"xdsrelay/shard"
)

// askTime is what another node may take to answer.
const askTime = 3 * time.Second

// Nodes is how all nodes are asked. Its fields are not changed once it is used, and
// the functions are called concurrently.
type Nodes struct {
	// Self is this node, Members are all nodes, with or without it.
	Self    func() shard.Member
	Members func() []shard.Member
	// Strays are nodes that are asked beside them, and of which nothing is said where they
	// do not answer; see [Strays]. nil for none.
	Strays func() []shard.Member
	// Owner is the node that owns a key; empty if all are about to end.
	Owner func(key string) string
	// Quiet is when a node that does not answer last did; see [Quiet]. nil if nobody keeps
	// that.
	Quiet func(node string) time.Time
	// Ask asks a node, this one too, by a path with a query.
	Ask func(ctx context.Context, m shard.Member, path string) ([]byte, error)
}

// Silent is a node that did not answer, and why.
type Silent struct {
	Node  string `json:"node"`
	Error string `json:"error"`
	// Since is when it last answered, or was first found not to, if that is known.
	Since time.Time `json:"since,omitzero"`
	// Clients is how many streams of clients it last said it had. How they stand is
	// not known.
	Clients int `json:"clients"`
}

// All returns the nodes, this one among them, and at the end those that only may be
// there.
func (t *Nodes) All() []shard.Member {
	members, strays := t.all()
	return append(members, strays...)
}

// all is All, with those apart that only may be there.
func (t *Nodes) all() (members, strays []shard.Member) {
	members, self := slices.Clone(t.Members()), t.Self()
	if !named(members, self.Name) {
		members = append([]shard.Member{self}, members...) // the others have not heard of it
	}
	if t.Strays != nil {
		strays = slices.DeleteFunc(t.Strays(), func(m shard.Member) bool { return named(members, m.Name) })
	}
	return members, strays
}

// Others are the nodes beside this one, with those apart that only may be there.
func (t *Nodes) Others() (members, strays []shard.Member) {
	members, strays = t.all()
	self := t.Self().Name
	return slices.DeleteFunc(members, func(m shard.Member) bool { return m.Name == self }), strays
}

// Arriving is an answer that depends on when it has arrived.
type Arriving interface {
	// Arrived is called with that time.
	Arrived(at time.Time)
}

// AskAll asks the nodes for which wanted says so, all if it is nil, at the same time,
// and gives those answers that came, in the order of the nodes. It takes as long as
// a node may take to answer, at most.
func AskAll[T any](ctx context.Context, t *Nodes, path string, v url.Values, wanted func(node string) bool) (answers []T, silent []Silent) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	members, strays := t.all()
	members = append(members, strays...)
	if wanted != nil {
		members = slices.DeleteFunc(members, func(m shard.Member) bool { return !wanted(m.Name) })
	}
	type result struct {
		answer T
		err    error
	}
	results := make([]result, len(members))
	var asked sync.WaitGroup
	for i, m := range members {
		asked.Go(func() {
			r := &results[i]
			var answer []byte
			if answer, r.err = t.Ask(ctx, m, path+"?"+v.Encode()); r.err == nil {
				r.err = json.Unmarshal(answer, &r.answer)
				if a, ok := any(&r.answer).(Arriving); ok {
					a.Arrived(time.Now())
				}
			}
		})
	}
	asked.Wait()
	silent = []Silent{}
	for i, r := range results {
		if r.err != nil {
			if named(strays, members[i].Name) {
				continue
			}
			one := Silent{Node: members[i].Name, Error: InShort(r.err), Clients: members[i].Clients}
			if t.Quiet != nil {
				one.Since = t.Quiet(one.Node)
			}
			silent = append(silent, one)
			continue
		}
		answers = append(answers, r.answer)
	}
	return answers, silent
}

// noNode is the error for a node that the tier does not have, or not any more.
func (f *Model) noNode(name string) error {
	var names []string
	for _, m := range f.nodes.All() {
		names = append(names, m.Name)
	}
	return fmt.Errorf("node: the tier has no node %q; its nodes are %s", name, strings.Join(names, ", "))
}

// InShort is why a node did not answer, without what gRPC wraps around it.
func InShort(err error) string {
	if errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded {
		return "no answer within " + askTime.String()
	}
	text := status.Convert(err).Message()
	if strings.HasSuffix(text, "the client connection is closing") {
		return "the connection was closed"
	}
	return Cause(text)
}

// Cause is the end of a text of gRPC about a connection, which says what is wrong; other
// texts are as they were.
func Cause(text string) string { return events.Cause(text) }
