package rollouts

import (
	"slices"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/redact"
	"xdsrelay/relay/resource"
)

// Trouble is which canaries have rejected a revision, were lost with it, or have not answered: the first of
// each.
type Trouble struct {
	Rejections []Rejection `json:"rejections,omitempty"`
	// Lost are those whose streams have ended, and this side did not end them.
	Lost []Unwell `json:"lost,omitempty"`
	// Unanswered are those that have not answered within the time of the policy.
	Unanswered []Unwell `json:"unanswered,omitempty"`
}

// Rejection is why a canary has rejected a revision.
type Rejection struct {
	// Client is its node id, which is a claim; Type is the type URL.
	Client string `json:"client"`
	Type   string `json:"type_url"`
	Reason string `json:"reason"`
	// Resources are those that the revision changes and the reason mentions.
	Resources []string  `json:"resources,omitempty"`
	At        time.Time `json:"at"`
}

// Unwell is a canary that was lost, or has not answered.
type Unwell struct {
	// Client is its node id, which is a claim. Type is the URL of a type that it has not answered; empty
	// for a client that had answered all.
	Client string `json:"client"`
	Type   string `json:"type_url,omitempty"`
	// At is when it was lost, or when it was sent what it has not answered.
	At time.Time `json:"at"`
}

const (
	// maxTrouble bounds the clients of each kind that are shown, and maxTroubleKept those of a decision.
	maxTrouble     = 10
	maxTroubleKept = 3
	// maxClientText bounds a node id that is shown, and maxReasonKept the reason of a decision, in bytes.
	maxClientText = 256
	maxReasonKept = 256
	// maxMentioned bounds the names of a rejection, and maxNamesLooked those that are looked for.
	maxMentioned   = 5
	maxNamesLooked = 20_000
)

// troubles returns the trouble of the revision. mentioned returns the names of a type that a reason
// mentions; it is called without a lock that streams wait for, and once for each rejection.
func (a *arms) troubles(mentioned func(typeURL, reason string) []string) Trouble {
	if a == nil {
		return Trouble{}
	}
	a.mu.Lock()
	known, all := a.known, a.trouble.clone()
	a.mu.Unlock()
	for i := known; i < len(all.Rejections); i++ {
		r := &all.Rejections[i]
		r.Client, r.Resources = redact.Short(r.Client, maxClientText), mentioned(r.Type, r.Reason)
	}
	for _, list := range [][]Unwell{all.Lost, all.Unanswered} {
		for i := range list {
			list[i].Client = redact.Short(list[i].Client, maxClientText)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known == known { // there may be more by now, after these
		copy(a.trouble.Rejections, all.Rejections)
		a.known = len(all.Rejections)
	}
	return all
}

func (t *Trouble) clone() Trouble {
	return Trouble{slices.Clone(t.Rejections), slices.Clone(t.Lost), slices.Clone(t.Unanswered)}
}

// kept returns the first of each, with short reasons, for the history.
func (t *Trouble) kept() Trouble {
	first := func(all []Unwell) []Unwell { return slices.Clone(all[:min(len(all), maxTroubleKept)]) }
	k := Trouble{slices.Clone(t.Rejections[:min(len(t.Rejections), maxTroubleKept)]), first(t.Lost), first(t.Unanswered)}
	for i := range k.Rejections {
		k.Rejections[i].Reason = redact.Short(k.Rejections[i].Reason, maxReasonKept)
	}
	return k
}

// Bounded returns the first of each with short texts, for other systems.
func (t *Trouble) Bounded() Trouble {
	b := t.kept()
	for i := range b.Rejections {
		r := &b.Rejections[i]
		r.Client, r.Type = redact.Short(r.Client, maxClientText), redact.Short(r.Type, maxClientText)
		r.Resources = slices.Clone(r.Resources[:min(len(r.Resources), maxMentioned)])
		for k, name := range r.Resources {
			r.Resources[k] = redact.Short(name, maxClientText)
		}
	}
	for _, list := range [][]Unwell{b.Lost, b.Unanswered} {
		for i := range list {
			list[i].Client, list[i].Type = redact.Short(list[i].Client, maxClientText), redact.Short(list[i].Type, maxClientText)
		}
	}
	return b
}

// trouble returns the trouble of the revision on its way, or that was refused.
func (k *key) trouble() Trouble { return k.arms.troubles(k.mentioned) }

// mentioned returns the names of the revision that a reason mentions.
func (k *key) mentioned(typeURL, reason string) []string {
	o := k.overlay
	if o == nil {
		o = k.group.CutOverlay() // it was taken back
	}
	return mentionedIn(o, typeURL, reason)
}

// mentionedIn returns the names of an overlay, which may be nil, that a reason mentions.
func mentionedIn(o *cache.Overlay, typeURL, reason string) (names []string) {
	if o == nil {
		return nil
	}
	for i, c := range o.Changes() {
		if len(names) == maxMentioned || i == maxNamesLooked {
			break
		}
		if c.Type.URL == typeURL && resource.Mentions(reason, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}
