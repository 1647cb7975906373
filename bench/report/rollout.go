package report

// Rollout is what became of a change that a rollout policy released.
type Rollout struct {
	// How is what clients did with it: accept, reject, leave, or errors.
	How string `json:"how"`
	// Exposed is how many clients received it, Again how many of these did on more than one connection,
	// and Early how many did within the first bake.
	Exposed int `json:"exposed"`
	Again   int `json:"again"`
	Early   int `json:"early"`
	// NotHeld is how many of the keys that are asked about did not refuse it in the time of the step, and
	// HeldAfter the seconds from the first client that rejected it, left, or received it until it was refused.
	NotHeld   int     `json:"not_held"`
	HeldAfter float64 `json:"held_after,omitempty"`
	// NACKs is how many the control plane received, and Explained how many of these name a resource of
	// the change and the reason of a client.
	NACKs     int64 `json:"nacks"`
	Explained int   `json:"explained"`
	// Complete is after how many seconds all clients had it; 0 means never.
	Complete float64 `json:"complete,omitempty"`
}

// The metrics of rollouts that budgets are about.
const (
	Exposed       = "exposed"
	ExposedShare  = "exposed_share"
	ExposedAgain  = "exposed_again"
	ExposedEarly  = "exposed_early"
	NotHeld       = "not_held"
	HeldAfter     = "held_after"
	HeldIntervals = "held_intervals"
	OriginNACKs   = "origin_nacks"
	Unexplained   = "origin_unexplained"
	NotComplete   = "not_complete"
)

// values says what a rollout means.
func (r *Rollout) values(setup Setup, add func(key, label string, unit Unit, v float64)) {
	share := func(n int) float64 { return float64(n) / float64(max(setup.Clients, 1)) * 100 }
	add(Exposed, "clients that received the revision", Count, float64(r.Exposed))
	add(ExposedShare, "the same, of all clients", Percent, share(r.Exposed))
	add(ExposedAgain, "clients that received it again", Count, float64(r.Again))
	add(ExposedEarly, "clients that received it within the first bake", Percent, share(r.Early))
	if r.How == "accept" {
		missing := 1.0
		if r.Complete > 0 {
			missing = 0
			add("complete", "until all clients had it", Seconds, r.Complete)
		}
		add(NotComplete, "rollouts that were not complete", Count, missing)
		return
	}
	add(NotHeld, "keys that did not refuse it", Count, float64(r.NotHeld))
	if r.HeldAfter > 0 {
		add(HeldAfter, "from the first client with trouble until it was refused", Millis, r.HeldAfter*1000)
		if setup.ReportEvery > 0 {
			add(HeldIntervals, "the same, in intervals of load reports", Count, r.HeldAfter*1000/float64(setup.ReportEvery))
		}
	}
	if setup.Keys == 1 {
		add(OriginNACKs, "origin: NACKs", Count, float64(r.NACKs))
		unexplained := r.NACKs - int64(r.Explained)
		if r.NACKs == 0 {
			unexplained = 1
		}
		add(Unexplained, "origin: NACKs without a resource or a reason, or none at all", Count, float64(unexplained))
	}
}
