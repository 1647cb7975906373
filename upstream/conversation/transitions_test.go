package conversation

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/internals/upstream-conversation.md instead of comparing it")

// page is where the table is shown.
const page = "../../docs/internals/upstream-conversation.md"

// walkBoth walks every cell of both variants.
func walkBoth(t *table) error {
	return errors.Join(walk(t, SotW, agrees(SotW)), walk(t, Delta, agrees(Delta)))
}

// TestTransitions walks every cell of the table, holds it against the rules B20, B23, C3, C7 and D10
// as independent facts, and holds that the page shows it. With -update it writes the page.
func TestTransitions(t *testing.T) {
	if err := walkBoth(transitions); err != nil {
		t.Error(err)
	}
	text := render()
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if was, err := os.ReadFile(page); err != nil {
		t.Error(err)
	} else if string(was) != text {
		t.Errorf("%s is out of date: run go test ./upstream/conversation -args -update", page)
	}
}

// TestRows holds that no two rows match the same state and event, and that each matches one that
// can be reached.
func TestRows(t *testing.T) {
	used := make([]bool, len(rows))
	for v := range Variant(variants) {
		live := reachable(v)
		for s := range allStates {
			matched := make(map[Event]int)
			for i := range rows {
				if r := &rows[i]; r.matches(v, s) {
					if other, dup := matched[r.on]; dup {
						t.Errorf("%v: %v while %v matches rows %d and %d", v, r.on, s, other, i)
					}
					matched[r.on] = i
					used[i] = used[i] || live[s]
				}
			}
		}
	}
	for i, u := range used {
		if !u {
			t.Errorf("row %d (%v) matches no state that can be reached", i, rows[i].on)
		}
	}
}

// TestReachableStates holds what no sequence of events can lead to.
func TestReachableStates(t *testing.T) {
	for v := range Variant(variants) {
		for s := range reachable(v) {
			for name, wrong := range map[string]bool{
				"a response to no request":                        s.Scope == New && (s.Reply != None || s.Frames != Complete),
				"the stream has to know unsubscriptions on delta": v == SotW && s.Scope == Reduced,
				"a part of an answer on SotW":                     v == SotW && s.Frames == Partial,
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
	for v := range Variant(variants) {
		for s := range reachable(v) {
			for e := range events {
				was := transitions[v][e][s.index()]
				for _, c := range mutationsOf(was) {
					mutated := *transitions
					mutated[v][e][s.index()] = c
					mutants++
					if walk(&mutated, v, agrees(v)) == nil {
						t.Errorf("%v: %v while %v: %+v instead of %+v goes unnoticed", v, e, s, c, was)
					}
				}
			}
		}
	}
	if want := 4000; mutants < want {
		t.Errorf("%d mutants, expected at least %d", mutants, want)
	}
}

// mutationsOf are the cells that differ from c in one part.
func mutationsOf(c cell) (all []cell) {
	all = append(all, cell{c.to, c.effect, !c.legal})
	if !c.legal {
		return all
	}
	for s := range allStates {
		n := 0
		for _, differs := range []bool{s.Scope != c.to.Scope, s.Reply != c.to.Reply, s.Frames != c.to.Frames} {
			if differs {
				n++
			}
		}
		if n == 1 {
			all = append(all, cell{s, c.effect, true})
		}
	}
	for bit := Name; bit <= Reject; bit <<= 1 {
		all = append(all, cell{c.to, c.effect ^ bit, true})
	}
	return all
}

// reachable are the states that a sequence of legal events leads to.
func reachable(v Variant) map[State]bool {
	all := make(map[State]bool)
	_ = walk(transitions, v, func(s State, _ Event, _ cell, _, _ flags) error {
		all[s] = true
		return nil
	})
	return all
}

// render is the page.
func render() string {
	var b strings.Builder
	b.WriteString("<!-- Made from the code by go test ./upstream/conversation -args -update. -->\n\n# Upstream conversation: the states of a type on a stream to a control plane\n\n")
	b.WriteString("Package [upstream/conversation](../../upstream/conversation/doc.go) keeps one conversation for each resource type of a stream to a control plane; [the mirror image](conversation.md) is kept for each stream of a client. " +
		"A state names the scope of the subscription, the reply to the newest response, and `+frames` if other frames of the same answer may follow.\n\n")
	fmt.Fprintf(&b, "%d combinations can be reached on SotW and %d on delta, of %d. In a cell, – means that the state does not change, and an empty cell that the event is illegal: it panics in builds with the race detector. After the state come the effects.\n", len(reachable(SotW)), len(reachable(Delta)), states)
	section(&b, "Scopes", "Scope", "The stream is subscribed to", scopeNames[:], scopeMeanings[:])
	section(&b, "Replies", "Reply", "Meaning", replyNames[:], replyMeanings[:])
	for v := range Variant(variants) {
		live := reachable(v)
		for _, group := range []struct {
			title string
			of    []Event
		}{
			{"demands", []Event{AskNothing, AskNames, AskImplicit, AskWildcard, AskWildcardAgain, Unsubscribed}},
			{"responses", []Event{Valid, Invalid, Replied, LargeFrame, FramesEnd}},
		} {
			group.of = legalOnes(v, group.of)
			fmt.Fprintf(&b, "\n## %s: %s\n\n| State |", v, group.title)
			for _, e := range group.of {
				fmt.Fprintf(&b, " %v |", e)
			}
			b.WriteString("\n|---|" + strings.Repeat("---|", len(group.of)) + "\n")
			for s := range allStates {
				if !live[s] {
					continue
				}
				fmt.Fprintf(&b, "| %v |", s)
				for _, e := range group.of {
					fmt.Fprintf(&b, " %s |", shown(s, transitions[v][e][s.index()]))
				}
				b.WriteString("\n")
			}
		}
	}
	section(&b, "Effects", "Effect", "Meaning", effectNames[:], effectMeanings[:])
	return b.String()
}

func section(b *strings.Builder, title, first, second string, names, means []string) {
	fmt.Fprintf(b, "\n## %s\n\n| %s | %s |\n|---|---|\n", title, first, second)
	for i, name := range names {
		fmt.Fprintf(b, "| %s | %s |\n", name, means[i])
	}
}

// legalOnes are the events that are legal in some state of the variant.
func legalOnes(v Variant, all []Event) (legal []Event) {
	for _, e := range all {
		for s := range reachable(v) {
			if transitions[v][e][s.index()].legal {
				legal = append(legal, e)
				break
			}
		}
	}
	return legal
}

var (
	scopeMeanings = [scopes]string{
		"nothing yet",
		"the wildcard, by a request without names (D10)",
		"the wildcard by its name, and maybe names",
		"names, or nothing any more",
		"the same, after something was unsubscribed (delta)",
	}
	replyMeanings = [replies]string{
		"no response was received",
		"the newest response was acknowledged",
		"the newest response was rejected",
		"an ACK is to be sent, before any other request (C3)",
		"a NACK is to be sent, before any other request (C3)",
	}
	effectNames    = [...]string{"name", "leave", "renew", "accept", "reject"}
	effectMeanings = [...]string{
		"the request names the wildcard",
		"the request unsubscribes from the wildcard by name",
		"the request would leave the two sides with different views, so a new stream is opened",
		"the version of the response is accepted",
		"the NACK counts as one more in a row",
	}
)

// shown is a cell of the page.
func shown(s State, c cell) string {
	if !c.legal {
		return ""
	}
	text := c.to.String()
	if c.to == s {
		text = "–"
	}
	var effects []string
	for i, name := range effectNames {
		if c.effect&(1<<i) != 0 {
			effects = append(effects, name)
		}
	}
	if len(effects) > 0 {
		text += ": " + strings.Join(effects, ", ")
	}
	return text
}
