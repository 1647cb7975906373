package conversation

import (
	"flag"
	"fmt"
	"testing"

	"xdsrelay/relay/transition/transitiontest"
)

var update = flag.Bool("update", false, "write docs/internals/upstream-conversation.md instead of comparing it")

// TestTransitions walks every cell of the table, holds it against the rules B20, B23, C3, C7 and D10
// as independent facts, and holds that the page shows it. With -update it writes the page.
func TestTransitions(t *testing.T) {
	for v, m := range machines {
		if err := m.Agrees(&transitions[v]); err != nil {
			t.Error(err)
		}
	}
	if err := page().Compare(*update); err != nil {
		t.Error(err)
	}
}

// TestRows holds that no two rows match the same state and event, and that each matches one that
// can be reached.
func TestRows(t *testing.T) {
	for _, m := range machines {
		for _, err := range m.Rows() {
			t.Error(err)
		}
	}
	for i, r := range rows {
		if !r.variant.Has(SotW) && !r.variant.Has(Delta) {
			t.Errorf("row %d (%v) matches no variant", i, r.on)
		}
	}
}

// TestReachableStates holds what no sequence of events can lead to.
func TestReachableStates(t *testing.T) {
	for i, m := range machines {
		v := Variant(i)
		for s := range m.Reachable() {
			for name, wrong := range map[string]bool{
				"a response to no request":                        s.Scope == New && (s.Reply != None || s.Frames != Complete),
				"the stream has to know unsubscriptions on delta": v == SotW && s.Scope == Reduced,
				"a part of an answer on SotW":                     v == SotW && s.Frames == Partial,
				"no request is ignored on delta":                  v == Delta && s.Scope == Ambiguous,
				"a reply has the names":                           s.Scope == Ambiguous && (s.Reply == Acked || s.Reply == Nacked),
			} {
				if wrong {
					t.Errorf("%v: %v: %s", v, s, name)
				}
			}
		}
	}
}

// TestMutations changes each entry of the table that can be reached, each part of it by itself, and
// holds that the walk of TestTransitions catches each change.
func TestMutations(t *testing.T) {
	mutants := 0
	for _, m := range machines {
		n, unnoticed := m.Mutate()
		mutants += n
		for _, err := range unnoticed {
			t.Error(err)
		}
	}
	if want := 4000; mutants < want {
		t.Errorf("%d mutants, expected at least %d", mutants, want)
	}
}

func page() *transitiontest.Page {
	p := transitiontest.NewPage("upstream-conversation.md", "upstream/conversation", "Upstream conversation: the states of a type on a stream to a control plane",
		"Package [upstream/conversation](../../upstream/conversation/doc.go) keeps one conversation for each resource type of a stream to a control plane; [the mirror image](conversation.md) is kept for each stream of a client. "+
			"A state names the scope of the subscription, the reply to the newest response, and `+frames` if other frames of the same answer may follow.")
	fmt.Fprintf(p, "\n%d combinations can be reached on SotW and %d on delta, of %d. %s\n",
		len(machines[SotW].Reachable()), len(machines[Delta].Reachable()), states, transitiontest.Legend)
	p.List("Scopes", "Scope | The stream is subscribed to", scopeNames[:], scopeMeanings[:])
	p.List("Replies", "Reply | Meaning", replyNames[:], replyMeanings[:])
	for i, m := range machines {
		v := Variant(i).String()
		m.Grid(p, v+": demands", AskNothing, AskNames, AskImplicit, AskWildcard, AskWildcardAgain, Unsubscribed)
		m.Grid(p, v+": responses", Valid, Invalid, Gated, Passed, Failed, Replied, LargeFrame, FramesEnd)
	}
	p.List("Effects", "Effect | Meaning", effectNames[:], effectMeanings[:])
	return p
}

var (
	scopeMeanings = [scopes]string{
		"nothing yet",
		"the wildcard, by a request without names (D10)",
		"the wildcard by its name, and maybe names",
		"the same, after a request without names and before the reply to a response: the server may have ignored all but the first one (B8), so that no names would still mean the wildcard (SotW)",
		"names, or nothing any more",
		"the same, after something was unsubscribed (delta)",
	}
	replyMeanings = [replies]string{
		"no response was received",
		"the newest response was acknowledged",
		"the newest response was rejected",
		"the newest response was acknowledged, and one more request reported that canaries have rejected it (K2)",
		"the reply waits until canaries have answered, and so does any other request (C3)",
		"an ACK is to be sent, before any other request (C3)",
		"a NACK is to be sent, before any other request (C3)",
	}
	effectNames    = [...]string{"name", "leave", "renew", "accept", "reject", "report"}
	effectMeanings = [...]string{
		"the request names the wildcard",
		"the request unsubscribes from the wildcard by name",
		"the request would leave the two sides with different views, so a new stream is opened",
		"the version of the response is accepted",
		"the NACK counts as one more in a row",
		"one more request with the nonce of the response reports the failure",
	}
)
