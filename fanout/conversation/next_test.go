package conversation

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/transition"
)

// at makes a conversation in a state, which was sent all up to generation 5.
func at(s State, marks Mark) *Conversation {
	to := cache.Position{Gen: 5, Removed: 5, Noted: 5}
	return &Conversation{State: s, Sent: to, Acked: to, Nonce: 1, marks: marks}
}

// TestNext holds what is asked of the cache in each state.
func TestNext(t *testing.T) {
	lagging := func(s State) *Conversation {
		c := at(s, 0)
		c.Sent.Removed = 4
		return c
	}
	idle, awaiting, held := State{Phase: Idle}, State{Phase: Awaiting}, State{Phase: Idle, Verdict: Held}
	same := View{Noted: 5, Interest: ByName, Knowledge: Complete}
	newer, noted, unknown, lost, free, paced := same, same, same, same, same, same
	newer.Due, free.Due, paced.Due = ChangesDue, RemovalsDue, ChangesPaced
	noted.Noted, unknown.Knowledge, lost.Knowledge = 6, Incomplete, OutOfReach
	for name, tc := range map[string]struct {
		c    *Conversation
		v    View
		want Decision
	}{
		"nothing new":                              {at(idle, 0), same, Decision{}},
		"news":                                     {at(idle, 0), newer, Decision{Act: Ask}},
		"news, B9":                                 {at(awaiting, 0), newer, Decision{Why: AwaitingAck}},
		"nothing new, and an ACK to come":          {at(awaiting, 0), same, Decision{}},
		"news, B12":                                {at(State{Phase: Expired}, 0), newer, Decision{Act: Ask}},
		"the first answer to a wildcard, B24":      {at(idle, FirstAnswerDue), same, Decision{Act: Ask}},
		"unknown, K13":                             {at(idle, 0), unknown, Decision{Why: Unknown}},
		"unknown and unreachable, K15":             {at(idle, 0), lost, Decision{Why: OriginUnreachable}},
		"removals that were held back":             {lagging(idle), same, Decision{Act: Ask}},
		"news in an interval":                      {at(idle, 0), paced, Decision{Why: Paced}},
		"news in an interval, B9":                  {at(awaiting, 0), paced, Decision{Why: AwaitingAck}},
		"news in an interval, and held":            {at(held, 0), paced, Decision{AskQuietly, HeldAfterNack}},
		"news in an interval that others wait for": {at(idle, Awaited), paced, Decision{Act: Ask}},
		"held, B14":                                {at(held, 0), same, Decision{Why: HeldAfterNack}},
		"held, and news":                           {at(held, 0), newer, Decision{AskQuietly, HeldAfterNack}},
		"held, and a heartbeat":                    {at(held, 0), noted, Decision{AskNotes, HeldAfterNack}},
		"held, and removals that still wait":       {lagging(held), same, Decision{Why: HeldAfterNack}},
		"held, and removals that need not wait":    {lagging(held), free, Decision{AskQuietly, HeldAfterNack}},
		"held, and errors that are unanswered":     {at(State{Awaiting, Held, Errors, false}, 0), newer, Decision{Why: AwaitingAck}},
		"held, and nothing new but an ACK to come": {at(State{Awaiting, Held, Notes, false}, 0), same, Decision{Why: HeldAfterNack}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.c.Next(&tc.v); got != tc.want {
				t.Errorf("%+v, expected %+v", got, tc.want)
			}
		})
	}
}

// TestMayPace holds what may wait for the end of an interval: changes of a state that the client was
// sent and has accepted, and nothing else.
func TestMayPace(t *testing.T) {
	names := cache.NewNames([]string{"a"})
	idle := State{Phase: Idle}
	for name, tc := range map[string]struct {
		change func(*Conversation, *View)
		want   bool
	}{
		"a change":                            {func(*Conversation, *View) {}, true},
		"a change after a version was proven": {func(c *Conversation, _ *View) { c.State, c.Nonce, c.marks = State{}, 0, Proven }, true},
		"nothing":                             {func(_ *Conversation, v *View) { v.Due = NothingDue }, false},
		"a first state":                       {func(c *Conversation, _ *View) { *c = Conversation{Sent: cache.Start, Acked: cache.Start} }, false},
		"an answer to come":                   {func(_ *Conversation, v *View) { v.Knowledge = Incomplete }, false},
		"a note":                              {func(_ *Conversation, v *View) { v.Noted = 6 }, false},
		"an ACK to come":                      {func(c *Conversation, _ *View) { c.Phase = Awaiting }, false},
		"an ACK that never came, B12":         {func(c *Conversation, _ *View) { c.Phase = Expired }, false},
		"a NACK, B16":                         {func(c *Conversation, _ *View) { c.Verdict = Held }, false},
		"a NACK before further parts":         {func(c *Conversation, _ *View) { c.Verdict = Tainted }, false},
		"further parts, B40":                  {func(c *Conversation, _ *View) { c.More = true }, false},
		"names that it asks for, B18":         {func(c *Conversation, _ *View) { c.Force = names }, false},
		"endpoints of a cluster, E3":          {func(c *Conversation, _ *View) { c.Resend = names }, false},
		"on-demand names, E7":                 {func(c *Conversation, _ *View) { c.OnDemand = names }, false},
		"removals that have waited, E5":       {func(c *Conversation, _ *View) { c.Sent.Removed = 4 }, false},
		"the answer to a wildcard, B24":       {func(c *Conversation, _ *View) { c.marks = FirstAnswerDue }, false},
		"another table, K17":                  {func(c *Conversation, _ *View) { c.marks = Switched }, false},
		"changes that others wait for, E2":    {func(c *Conversation, _ *View) { c.marks = Awaited }, false},
	} {
		c, v := at(idle, 0), View{Due: ChangesDue, Noted: 5, Interest: ByName, Knowledge: Complete}
		if tc.change(c, &v); c.MayPace(&v) != tc.want {
			t.Errorf("%s: %t, expected %t", name, !tc.want, tc.want)
		}
	}
}

// TestAwaited holds that changes that others wait for are due until they are sent or skipped.
func TestAwaited(t *testing.T) {
	to := &Result{To: cache.Position{Gen: 6, Removed: 6, Noted: 5}, Newest: 6}
	for name, end := range map[string]func(*Conversation){
		"sent":          func(c *Conversation) { c.Commit(&cache.Query{}, to, 2, 1) },
		"skipped":       func(c *Conversation) { c.SkipTo(&cache.Query{}, to) },
		"another table": func(c *Conversation) { c.Switch() },
	} {
		c := at(State{Phase: Idle}, Awaited)
		if end(c); c.Has(Awaited) {
			t.Errorf("%s: still awaited", name)
		}
	}
	c := at(State{Phase: Idle}, Awaited)
	if c.CommitErrors(2, 1); !c.Has(Awaited) {
		t.Error("errors of locators have no changes, but nothing is awaited any longer")
	}
}

// TestMayAnswer holds B4 and K13: what must not be sent whatever is new.
func TestMayAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		nonce uint64
		marks Mark
		v     View
		want  Reason
	}{
		"no names":                       {1, 0, View{Knowledge: Complete}, NotSubscribed},
		"known":                          {0, 0, View{Interest: ByName, Knowledge: Complete, Scope: cache.FullState}, NothingNew},
		"stored and not confirmed":       {0, 0, View{Interest: ByName, Knowledge: Unconfirmed}, Restoring},
		"a part of a first full state":   {0, 0, View{Interest: Wildcard, Scope: cache.FullState}, Unknown},
		"some of the names":              {0, 0, View{Interest: ByName, Scope: cache.FullState}, NothingNew},
		"some of the names, and a claim": {0, 0, View{Interest: ByNameWithVersion, Scope: cache.FullState}, Unknown},
		"a part of a full state":         {1, 0, View{Interest: Wildcard, Scope: cache.FullState}, NothingNew},
		"another table":                  {1, Switched, View{Interest: ByName, Scope: cache.FullState, Knowledge: OutOfReach}, OriginUnreachable},
		"another table, delta":           {1, Switched, View{Interest: ByName}, NothingNew},
	} {
		t.Run(name, func(t *testing.T) {
			c := at(State{Phase: Idle}, tc.marks)
			c.Nonce = tc.nonce
			if got := c.MayAnswer(&tc.v); got != tc.want {
				t.Errorf("%d (%v), expected %d", got, got, tc.want)
			}
		})
	}
}

// TestJudge holds B24, B32, K13 and K15: which answers of the cache are sent.
func TestJudge(t *testing.T) {
	for name, tc := range map[string]struct {
		nonce uint64
		marks Mark
		v     View
		q     cache.Query
		a     Answer
		want  Decision
	}{
		"something":                       {1, 0, View{}, cache.Query{}, Answer{Extent: NoResources}, Decision{Act: Send}},
		"only that nobody can be asked":   {0, 0, View{}, cache.Query{}, Answer{Extent: OnlyUnreachable}, Decision{Why: OriginUnreachable}},
		"the same on a stream with more":  {1, 0, View{Responses: 1}, cache.Query{}, Answer{Extent: OnlyUnreachable}, Decision{Act: Send}},
		"absent names of a full state":    {0, 0, View{Scope: cache.FullState}, cache.Query{}, Answer{Extent: NoResources}, Decision{Why: Unknown}},
		"a part that SotW has no form of": {1, 0, View{Knowledge: Complete}, cache.Query{}, Answer{Rest: PartsLeft}, Decision{Act: SkipAndAsk}},
		"an empty wildcard":               {1, FirstAnswerDue, View{Knowledge: Complete}, cache.Query{}, Answer{}, Decision{Act: SendEmpty}},
		"an unknown wildcard":             {1, FirstAnswerDue, View{}, cache.Query{}, Answer{}, Decision{Skip, Unknown}},
		"removals held back from a node":  {1, FirstAnswerDue, View{Knowledge: Complete}, cache.Query{KeepRemoved: true}, Answer{Removals: cache.KeptFromNode}, Decision{Skip, Ordered}},
		"nothing":                         {1, 0, View{Knowledge: Complete}, cache.Query{}, Answer{}, Decision{Act: Skip}},
	} {
		t.Run(name, func(t *testing.T) {
			c := at(State{Phase: Idle}, tc.marks)
			c.Nonce = tc.nonce
			if got := c.Judge(&tc.v, &tc.q, &tc.a); got != tc.want {
				t.Errorf("%+v, expected %+v", got, tc.want)
			}
		})
	}
}

// TestMayGoAhead holds E7 and B16.
func TestMayGoAhead(t *testing.T) {
	names := cache.NewNames([]string{"a"})
	for name, tc := range map[string]struct {
		c    Conversation
		want bool
	}{
		"nothing is waited for": {Conversation{}, false},
		"names":                 {Conversation{OnDemand: names}, true},
		"names after a NACK":    {Conversation{OnDemand: names, State: State{Phase: Idle, Verdict: Held}}, false},
	} {
		if got := tc.c.MayGoAhead(); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestMayKeepRemovals holds E2: removals wait only for clients that may route to what is removed.
func TestMayKeepRemovals(t *testing.T) {
	for name, tc := range map[string]struct {
		marks    Mark
		since    cache.Position
		supplier bool
		want     bool
	}{
		"a new client":                      {0, cache.Start, true, false},
		"the wildcard again":                {Resubscribed, cache.Position{Removed: 5}, false, true},
		"a supplier":                        {0, cache.Position{}, true, true},
		"a dependent that was sent nothing": {0, cache.Position{}, false, false},
		"a dependent":                       {0, cache.Position{Gen: 5, Removed: 5}, false, true},
		"parts to a new client":             {0, cache.Position{Gen: 3, Removed: 5}, true, false},
	} {
		c := Conversation{marks: tc.marks}
		if got := c.MayKeepRemovals(tc.since, tc.supplier); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestPure holds that the package needs no lock, clock or I/O.
func TestPure(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imported := range file.Imports {
			if !slices.Contains([]string{`"xdsrelay/relay/cache"`, `"xdsrelay/relay/transition"`}, imported.Path.Value) {
				t.Errorf("%s imports %s", name, imported.Path.Value)
			}
		}
	}
}

// TestIllegal holds that an illegal transition panics in builds with the race detector and changes
// nothing in others.
func TestIllegal(t *testing.T) {
	s := State{Phase: Awaiting}
	defer func() {
		if r := recover(); (r != nil) != transition.Checked {
			t.Errorf("panicked with %v", r)
		}
		if want := (State{Phase: Awaiting}); s != want {
			t.Errorf("the state is %v", s)
		}
	}()
	s.step(SentContent)
}
