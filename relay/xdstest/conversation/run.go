package conversation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"xdsrelay/relay/xdstest"
)

// Setup is what a server under test is told before it starts.
type Setup struct {
	// Name is the server's, as the script calls it.
	Name string
	// Up is how it is to speak with its origins: "sotw" or "delta".
	Up string
	// Origins are the addresses of the origins, the first of the script first.
	Origins []string
	// Config is the part "config" of the script, with {NAME} replaced by the
	// address of the origin NAME.
	Config string
}

// Server is a server under test.
type Server struct {
	// Addr tells where clients connect, "host:port". It may change when the server
	// is started anew.
	Addr func() string
	// Do carries out what a script tells the server itself, like "relay drains";
	// nil if it can be told nothing.
	Do func(words []string) error
}

// Options say how scripts are run.
type Options struct {
	// Start starts a server under test, which ends by t's cleanup. It is called
	// on the goroutine of the test.
	Start func(t xdstest.TB, setup Setup) Server
	// Network connects clients, servers and origins; nil is TCP on loopback.
	Network *xdstest.Memory
}

// quiet is how long nothing may happen where a script says so without a
// duration. What must happen may take as long as [xdstest.PatienceHere] says.
const quiet = 150 * time.Millisecond

// Run runs the script in one of its combinations. It fails t at the first line
// that does not hold, with the conversation so far. It must be called on the
// goroutine of the test.
func (s Script) Run(t xdstest.TB, combination string, opts Options) {
	t.Helper()
	if !slices.Contains(s.Combinations, combination) {
		t.Fatalf("%s is not run as %q", s.File, combination)
	}
	r := newRun(t, s, combination, opts)
	for _, c := range s.commands {
		if slices.ContainsFunc(c.when, func(w condition) bool { return !w.holds(r.combination) }) {
			continue
		}
		r.log.Addf("%-8s %s", fmt.Sprintf("line %d", c.line), c.text)
		if err := c.do(r); err != nil {
			t.Fatalf("%s:%d (%s): %s\n%v%s", s.File, c.line, combination, c.text, err, r.log)
		}
	}
	if err := r.leftovers(); err != nil {
		t.Fatalf("%s (%s): at the end: %v%s", s.File, combination, err, r.log)
	}
}

// run is one run of a script. All of it belongs to the goroutine of the test.
type run struct {
	combination combination
	contents    *contents
	t           xdstest.TB
	log         *xdstest.Transcript
	network     *xdstest.Memory // nil for TCP
	patience    time.Duration
	servers     map[string]Server
	origins     map[string]*origin
	clients     map[string]*client
	remembered  map[string]string
}

func newRun(t xdstest.TB, s Script, name string, opts Options) *run {
	t.Helper()
	down, up, _ := strings.Cut(name, "-over-")
	r := &run{
		combination: combination{down: down, up: up}, contents: s.contents, t: t, network: opts.Network,
		log:      xdstest.NewTranscript(fmt.Sprintf("%s (%s)", s.File, name), 1000),
		patience: xdstest.PatienceHere(),
		servers:  make(map[string]Server), origins: make(map[string]*origin),
		clients: make(map[string]*client), remembered: make(map[string]string),
	}
	setup := Setup{Up: up, Config: s.config}
	for _, d := range s.origins {
		o := r.newOrigin(d)
		r.origins[d.name] = o
		setup.Origins = append(setup.Origins, o.addr())
		setup.Config = strings.ReplaceAll(setup.Config, "{"+d.name+"}", o.addr())
	}
	for _, name := range s.servers {
		setup.Name = name
		r.servers[name] = opts.Start(t, setup)
	}
	return r
}

// value is what a word stands for: itself, or what $NAME remembers.
func (r *run) value(text string) (string, error) {
	name, ok := strings.CutPrefix(text, "$")
	if !ok {
		return text, nil
	}
	v, ok := r.remembered[name]
	if !ok {
		return "", fmt.Errorf("nothing is remembered as %s", name)
	}
	return v, nil
}

// leftovers is an error if something has arrived, or does so shortly, that the
// script does not mention.
func (r *run) leftovers() error {
	if err := r.allSilent(quiet, false); err != nil {
		return err
	}
	for _, o := range r.origins {
		if err := o.noRejections(); err != nil {
			return err
		}
	}
	return nil
}

// parseQuiet reads "quiet [DURATION]": no client hears anything, and no origin
// anything new.
func parseQuiet(a *args) (func(*run) error, error) {
	var d time.Duration
	if !a.empty() {
		var err error
		if d, err = a.duration(); err != nil {
			return nil, err
		}
	}
	return func(r *run) error {
		window := cmp.Or(d, quiet)
		before := make(map[*origin]int)
		for _, o := range r.origins {
			before[o] = o.heardSoFar()
		}
		if err := r.allSilent(window, true); err != nil {
			return err
		}
		for _, o := range r.origins {
			if len(r.clients) > 0 {
				window = 0 // it had as much time as the clients
			}
			if err := o.hearsNothing(window, "", before[o]); err != nil {
				return err
			}
		}
		return nil
	}, a.done()
}

// allSilent is silence of all clients at the same time.
func (r *run) allSilent(d time.Duration, open bool) error {
	for _, window := range []time.Duration{d, 0} {
		for _, c := range r.clients {
			c.sync()
		}
		for _, c := range r.clients {
			if err := c.nothingWaits(window, "", open); err != nil {
				return err
			}
			window = 0 // the others had as much time
		}
	}
	return nil
}

// serverSentence reads what a script tells a server itself.
func serverSentence(name string, words []word) (func(*run) error, error) {
	if len(words) == 0 {
		return nil, fmt.Errorf("what does %s do?", name)
	}
	a := &args{words}
	texts, err := a.names()
	if err != nil {
		return nil, err
	}
	return func(r *run) error {
		values := make([]string, len(texts))
		for i, text := range texts {
			var err error
			if values[i], err = r.value(text); err != nil {
				return err
			}
		}
		do := r.servers[name].Do
		if do == nil {
			return fmt.Errorf("%s can be told nothing", name)
		}
		return do(values)
	}, nil
}
