package cache

import (
	"slices"
	"testing"
)

// TestOnlyContent holds what a wake may be delayed for: changed content of a subscription that has
// all its answers, and nothing else.
func TestOnlyContent(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*WakeState)
		want   bool
	}{
		"content":                   {func(*WakeState) {}, true},
		"content, and a new client": {func(w *WakeState) { w.Prompt = true }, true},
		"nothing":                   {func(w *WakeState) { w.Gen-- }, false},
		"other names":               {func(w *WakeState) { w.Subscription++ }, false},
		"a note":                    {func(w *WakeState) { w.Noted++ }, false},
		"a heartbeat":               {func(w *WakeState) { w.Heartbeat++ }, false},
		"a name that has appeared":  {func(w *WakeState) { w.Missing-- }, false},
		"an answer to come":         {func(w *WakeState) { w.Settled = false }, false},
	} {
		before := WakeState{Subscription: 1, Gen: 1, Noted: 1, Heartbeat: 1, Missing: 1, Settled: true}
		after := before
		after.Gen++
		if tc.change(&after); before.OnlyContent(after) != tc.want {
			t.Errorf("%s: %t, expected %t", name, !tc.want, tc.want)
		}
	}
	before := WakeState{Gen: 1}
	if before.OnlyContent(WakeState{Gen: 2, Settled: true}) {
		t.Error("the answer may be delayed")
	}
}

// TestWakeState holds that a subscription is settled once its control plane has answered for all of
// it, and which of its names have no resource.
func TestWakeState(t *testing.T) {
	w := start(t, Config{})
	c := w.client(endpoints, false, "a", "b")
	w.feed.TakeDemand(true, true)
	if s := c.w.sub.WakeState(); s.Settled || s.Missing != 2 || !s.Prompt {
		t.Errorf("before the answer: %+v", s)
	}
	w.apply(endpoints, res("a", "1"))
	w.feed.Absent(endpoints, []string{"b"})
	before := c.w.sub.WakeState()
	if !before.Settled || before.Missing != 1 || before.Gen != c.head().Gen {
		t.Errorf("after the answer: %+v", before)
	}
	w.apply(endpoints, res("a", "2"))
	if after := c.w.sub.WakeState(); !before.OnlyContent(after) {
		t.Errorf("a change of content: %+v after %+v", after, before)
	}
	w.apply(endpoints, res("b", "1"))
	if after := c.w.sub.WakeState(); before.OnlyContent(after) {
		t.Errorf("a resource that was asked for: %+v after %+v", after, before)
	}
	c.table.Edit(&c.w, Edit{Add: []string{"c"}})
	if s := c.w.sub.WakeState(); s.Settled || s.Subscription == before.Subscription {
		t.Errorf("after another name: %+v", s)
	}
}

// TestPace holds which clients are woken at once: those that have not agreed to be woken later. One
// that moves to another subscription has not agreed to that.
func TestPace(t *testing.T) {
	w := start(t, Config{})
	var clients []*client
	for range 4 {
		clients = append(clients, w.client(endpoints, false, "a"))
	}
	sub, table := clients[0].w.sub, clients[0].table
	expect := func(prompt ...int) {
		t.Helper()
		if all := sub.Watchers(nil); len(all) != sub.count {
			t.Errorf("%d clients, expected %d", len(all), sub.count)
		}
		got := sub.PromptWatchers(nil)
		if len(got) != len(prompt) || sub.WakeState().Prompt != (len(prompt) > 0) {
			t.Errorf("%d clients are woken at once, expected %d", len(got), len(prompt))
		}
		for _, i := range prompt {
			if !slices.Contains(got, Client(clients[i])) {
				t.Errorf("client %d is not woken at once", i)
			}
		}
		for _, wrong := range w.cache.Check() {
			t.Error(wrong)
		}
	}
	expect(0, 1, 2, 3)
	for _, i := range []int{1, 3, 2, 1} { // twice is harmless
		table.Pace(&clients[i].w, true)
	}
	expect(0)
	table.Pace(&clients[0].w, true)
	expect()
	table.Pace(&clients[2].w, false)
	expect(2)
	table.Replace(&clients[1].w, false, []string{"b"})
	table.Leave(&clients[3].w)
	expect(2)
	table.Replace(&clients[1].w, false, []string{"a"})
	expect(1, 2)
	table.Leave(&clients[1].w)
	table.Leave(&clients[0].w)
	table.Leave(&clients[2].w)
	table.Pace(&clients[2].w, true) // after it has left
	if sub.count != 0 || sub.watchers != nil || sub.paced != nil {
		t.Errorf("%d clients are left", sub.count)
	}
}
