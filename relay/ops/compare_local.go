package ops

import (
	"cmp"
	"errors"
	"net/url"
	"slices"
	"strings"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/fanout"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/redact"
	"xdsrelay/relay/resource"
)

// Bounds of the answers that a comparison is made of.
const (
	mostHeld      = 5000    // resources of one answer
	mostBodyBytes = 4 << 20 // contents of one answer, without the last one
)

// held is a resource that a client or a key has.
type held struct {
	URL  string `json:"u"`
	Key  string `json:"k"` // canonical name
	Name string `json:"n,omitempty"`
	Held
}

func (h *held) place() place { return place{h.URL, h.Key} }

func (p place) compare(o place) int {
	return cmp.Or(strings.Compare(p.URL, o.URL), strings.Compare(p.Name, o.Name))
}

// contents are resources of one side behind a place.
type contents struct {
	Known bool   `json:"known"` // the node has the client or key
	Held  []held `json:"held"`
	More  bool   `json:"more,omitempty"`
}

// answerContents answers another node what a key, or with a name a client of it, has.
func (l Local) answerContents(v url.Values) (any, error) {
	var after place
	if text := v.Get(paramAfter); text != "" {
		if err := readToken(text, &after); err != nil {
			return nil, errors.New("after: expected a place")
		}
	}
	var out contents
	if v.Has(paramName) {
		out.Known, out.Held = l.heldByClient(at{Name: v.Get(paramName), Key: v.Get(ParamKey), Peer: v.Get(paramPeer)})
	} else {
		out.Known, out.Held = l.heldByKey(v.Get(ParamKey))
	}
	out.Held = slices.DeleteFunc(out.Held, func(h held) bool {
		return v.Get(paramType) != "" && h.URL != v.Get(paramType) || after != (place{}) && h.place().compare(after) <= 0
	})
	slices.SortFunc(out.Held, func(a, b held) int { return a.place().compare(b.place()) })
	out.Held = slices.CompactFunc(out.Held, func(a, b held) bool { return a.place() == b.place() }) // of a client with several streams
	if len(out.Held) > mostHeld {
		out.Held, out.More = out.Held[:mostHeld], true
	}
	return out, nil
}

// heldByKey returns the resources of a key.
func (l Local) heldByKey(key string) (known bool, all []held) {
	g := l.group(key)
	if g == nil {
		return false, nil
	}
	for _, t := range g.Tables() {
		for _, i := range t.NameInfos() {
			if i.Resource != nil {
				all = append(all, heldOf(t.Type.URL, i.Resource, i.Version, fanout.HasCurrent))
			}
		}
	}
	return true, all
}

func heldOf(url string, r *resource.Resource, version string, has fanout.Holding) held {
	h := held{URL: url, Key: r.Key, Held: Held{Has: has}}
	if r.Name != r.Key {
		h.Name = r.Name
	}
	if has == fanout.HasCurrent {
		h.Version, h.Digest = redact.Text(version), r.Member().Hex()
	}
	return h
}

// heldByClient returns what a client has acknowledged.
func (l Local) heldByClient(c at) (known bool, all []held) {
	for _, s := range l.find(Query{Name: c.Name, Key: c.Key}) {
		if s.Peer() != c.Peer {
			continue
		}
		known = true
		lacks := make(map[place]fanout.Holding)
		for _, t := range s.Holdings() {
			for i := range t.Lacks {
				lack := &t.Lacks[i]
				has := fanout.HasNone
				switch {
				case lack.Was:
					has = fanout.HasOlder
				case lack.Maybe:
					has = fanout.HasUnknown
				}
				lacks[place{t.Type.URL, resource.Canonical(lack.Name)}] = has
				if lack.Resource == nil && has != fanout.HasNone {
					all = append(all, held{URL: t.Type.URL, Key: resource.Canonical(lack.Name), Held: Held{Has: has}})
				}
			}
			if t.State == Unknown {
				lacks[place{URL: t.Type.URL}] = fanout.HasUnknown
			}
		}
		for r := range s.Resources {
			if r.Resource == nil {
				continue
			}
			has, lacking := lacks[place{r.Type.URL, r.Resource.Key}]
			if unknown, ok := lacks[place{URL: r.Type.URL}]; ok {
				has, lacking = unknown, true
			}
			switch {
			case !lacking:
				all = append(all, heldOf(r.Type.URL, r.Resource, r.Resource.Version, fanout.HasCurrent))
			case has != fanout.HasNone:
				all = append(all, heldOf(r.Type.URL, r.Resource, "", has))
			}
		}
	}
	return known, all
}

// shownResource is a resource without what must not be shown.
type shownResource struct {
	Place place  `json:"place"`
	Body  []byte `json:"body,omitempty"`
	Extra []byte `json:"extra,omitempty"`
	// Digest is that of the resource as it is: it may have changed since it was looked at first.
	Digest string `json:"digest"`
}

// answerBodies answers another node the redacted contents of resources of a key.
func (l Local) answerBodies(v url.Values) (any, error) {
	out := []shownResource{}
	g := l.group(v.Get(ParamKey))
	if g == nil {
		return out, nil
	}
	tables := make(map[string]*cache.Table)
	for _, t := range g.Tables() {
		tables[t.Type.URL] = t
	}
	size := 0
	for _, text := range v[paramResource] {
		var p place
		if err := readToken(text, &p); err != nil {
			return nil, errors.New("resource: expected a place")
		}
		if t := tables[p.URL]; t != nil && size < mostBodyBytes {
			if i, ok := t.Find(p.Name); ok && i.Resource != nil {
				one, err := shownOf(p, i.Resource)
				if err != nil {
					continue // it cannot be read, so nothing of it can be shown
				}
				size += len(one.Body) + len(one.Extra)
				out = append(out, one)
			}
		}
	}
	return out, nil
}

func shownOf(p place, r *resource.Resource) (out shownResource, err error) {
	out = shownResource{Place: p, Digest: r.Member().Hex()}
	var redactor redact.Redactor
	body, extra := &anypb.Any{}, &discoveryv3.Resource{}
	if err := errors.Join(proto.Unmarshal(r.Body, body), proto.Unmarshal(r.Extra, extra)); err != nil {
		return out, err
	}
	redactor.Any(body)
	redactor.Message(extra)
	if len(r.Body) > 0 {
		out.Body, err = proto.Marshal(body)
	}
	if err == nil && len(r.Extra) > 0 {
		out.Extra, err = proto.Marshal(extra)
	}
	return out, err
}

// resource is what fielddiff compares.
func (s *shownResource) resource() *resource.Resource {
	return resource.New(resource.Resource{Name: s.Place.Name, Body: s.Body, Extra: s.Extra})
}
