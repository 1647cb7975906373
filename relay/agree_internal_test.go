package relay

import (
	"slices"
	"testing"
	"time"

	"xdsrelay/relay/terms"
	"xdsrelay/shard"
)

// TestAgreement: a node that differs is reported once, since it was first seen; as long as
// it does not answer nothing is taken back, and once it is as the others are, or has gone,
// that is reported as well.
func TestAgreement(t *testing.T) {
	var a agreement
	now := time.Unix(1000, 0)
	all := []shard.Member{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	say := func(node, rules, origin string) termsAnswer {
		return termsAnswer{Node: node, Terms: map[string]string{"aggregation": rules, "upstream": origin}}
	}
	step := func(what string, there []shard.Member, answers []termsAnswer, cameWant, wentWant []string, others int) {
		t.Helper()
		now = now.Add(time.Minute)
		came, went := a.note("a", answers, there, now)
		names := func(all []terms.Difference) (out []string) {
			for _, d := range all {
				out = append(out, d.Node)
			}
			return out
		}
		if !slices.Equal(names(came), cameWant) || !slices.Equal(names(went), wentWant) || a.others["aggregation"] != others {
			t.Errorf("%s: came %v, went %v, %d others differ", what, came, went, a.others["aggregation"])
		}
	}
	step("alike", all, []termsAnswer{say("a", "1", "x"), say("b", "1", "x"), say("c", "1", "x")}, nil, nil, 0)
	step("c has others", all, []termsAnswer{say("a", "1", "x"), say("b", "1", "x"), say("c", "2", "x")}, []string{"c"}, nil, 1)
	since := now
	step("still", all, []termsAnswer{say("a", "1", "x"), say("b", "1", "x"), say("c", "2", "x")}, nil, nil, 1)
	step("c is silent", all, []termsAnswer{say("a", "1", "x"), say("b", "1", "x")}, nil, nil, 0)
	step("c differs in more", all, []termsAnswer{say("a", "1", "x"), say("b", "1", "x"), say("c", "2", "y")}, []string{"c"}, nil, 1)
	if d := a.differences(); len(d) != 1 || !d[0].Since.Equal(since) || !slices.Equal(d[0].Parts, []string{"aggregation", "upstream"}) {
		t.Errorf("differences %+v", d)
	}
	step("the others follow", all, []termsAnswer{say("a", "2", "y"), say("b", "1", "x"), say("c", "2", "y")}, []string{"b"}, []string{"c"}, 1)
	step("b has gone", all[:1], []termsAnswer{say("a", "2", "y")}, nil, []string{"b"}, 0)
}
