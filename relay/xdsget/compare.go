package xdsget

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/relay/fielddiff"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdsclient"
)

// Limits of a comparison.
const (
	// settleTime is how long servers may differ while an update is on its way.
	settleTime = 2 * time.Second
	// mostFields is how many fields of one resource are listed.
	mostFields = 20
	// mostDifferences is how many resources are listed with their fields.
	mostDifferences = 200
)

// Where is where a resource is that only one of two servers has, or that differs.
type Where string

// The places.
const (
	OnlyHere  Where = "only_here"  // the first server has it, the second does not
	OnlyThere Where = "only_there" // the second server has it, the first does not
	Differs   Where = "differs"    // both have it, with different content
)

// Comparison is how the resources of two servers differ. It may be shown.
type Comparison struct {
	Here  Side `json:"here"`
	There Side `json:"there"`
	// Same is the number of equal resources. Versions are not compared: servers may number
	// differently.
	Same int `json:"same"`
	// Differences are in order of types and names.
	Differences []Difference `json:"differences"`
}

// Side is one of the two servers.
type Side struct {
	Server    string `json:"server"`
	Resources int    `json:"resources"`
	// Problem is why the server did not send everything; empty if it did.
	Problem string `json:"problem,omitempty"`
	// Silent are the type URLs without a response.
	Silent []string `json:"silent,omitempty"`
}

// Difference is one resource.
type Difference struct {
	URL          string `json:"type_url"`
	Name         string `json:"name"`
	Where        Where  `json:"difference"`
	HereVersion  string `json:"here_version,omitempty"`
	ThereVersion string `json:"there_version,omitempty"`
	// Fields are the fields that differ: old is the value of the first server, new that of the second.
	Fields []fielddiff.Field `json:"fields,omitempty"`
	// Omitted is the number of further fields.
	Omitted int `json:"omitted,omitempty"`
	// Problem is why the fields cannot be compared.
	Problem string `json:"problem,omitempty"`
}

// Equal reports whether both servers sent the same resources, and something of each type.
func (c *Comparison) Equal() bool {
	return len(c.Differences) == 0 && c.Here.answered() && c.There.answered()
}

func (s *Side) answered() bool { return s.Problem == "" && len(s.Silent) == 0 }

// Compare waits until two sessions have everything, or ctx ends, and compares what they have. While
// they differ it waits a moment longer, since an update may be on its way.
func Compare(ctx context.Context, here, there *Session) *Comparison {
	hereErr, thereErr := waitBoth(ctx, here, there)
	settled, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	for {
		hereChanged, thereChanged := here.Changed(), there.Changed()
		a, b := here.contents(), there.contents()
		if hereErr != nil || thereErr != nil || equal(a, b) {
			return compare(side(here, a, hereErr), side(there, b, thereErr), a, b)
		}
		select {
		case <-hereChanged:
		case <-thereChanged:
		case <-settled.Done():
			return compare(side(here, a, nil), side(there, b, nil), a, b)
		}
	}
}

// waitBoth waits for two sessions, and for neither any longer if one cannot continue.
func waitBoth(ctx context.Context, here, there *Session) (hereErr, thereErr error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wait := func(s *Session) <-chan error {
		done := make(chan error, 1)
		go func() {
			err := s.Wait(ctx)
			if _, fatal := errors.AsType[*Error](err); fatal {
				cancel()
			}
			done <- err
		}()
		return done
	}
	first, second := wait(here), wait(there)
	return <-first, <-second
}

// contents is what a session has, by type URL and name.
func (s *Session) contents() map[string]map[string]entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]map[string]entry, len(s.types))
	for url, t := range s.types {
		all[url] = make(map[string]entry, len(t.held))
		for name, e := range t.held {
			all[url][name] = *e
		}
	}
	return all
}

// side describes a server whose Wait returned an error or nil.
func side(s *Session, has map[string]map[string]entry, waited error) Side {
	out := Side{Server: s.cfg.Addr}
	for _, resources := range has {
		out.Resources += len(resources)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for url, t := range s.types {
		if t.responses == 0 && len(t.names()) > 0 {
			out.Silent = append(out.Silent, url)
		}
	}
	slices.Sort(out.Silent)
	switch fatal, isError := waited.(*Error); { //nolint:errorlint // Wait returns it as it is
	case isError:
		out.Problem = fatal.Error()
	case waited != nil && s.last != nil:
		out.Problem = s.last.Error()
	}
	return out
}

// equal reports whether two servers have the same resources with the same content.
func equal(a, b map[string]map[string]entry) bool {
	for _, url := range types(a, b) {
		if !maps.EqualFunc(a[url], b[url], func(x, y entry) bool { return sameBody(url, x.body, y.body) }) {
			return false
		}
	}
	return true
}

// types lists the types of two servers.
func types(a, b map[string]map[string]entry) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return xdsclient.InPushOrder(keys(all))
}

// sameBody reports whether two bodies are the same message, whatever their encoding.
func sameBody(url string, a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, errX := (&anypb.Any{TypeUrl: url, Value: a}).UnmarshalNew()
	y, errY := (&anypb.Any{TypeUrl: url, Value: b}).UnmarshalNew()
	if errX != nil || errY != nil {
		return false
	}
	if proto.Equal(x, y) {
		return true
	}
	d := fielddiff.Of(wrap(url, a), wrap(url, b), mostFields)
	return d.Problem == "" && d.Omitted == 0 && !slices.ContainsFunc(d.Fields, func(f fielddiff.Field) bool { return f.Change != fielddiff.Encoding })
}

// wrap returns a body as a resource of the relay.
func wrap(url string, body []byte) *resource.Resource {
	encoded, err := proto.Marshal(&anypb.Any{TypeUrl: url, Value: body})
	if err != nil {
		return nil // an Any can always be encoded, except for a URL that is not UTF-8, which no response has
	}
	return resource.New(resource.Resource{Body: encoded})
}

// compare lists the differences.
func compare(here, there Side, a, b map[string]map[string]entry) *Comparison {
	c := &Comparison{Here: here, There: there, Differences: []Difference{}}
	for _, url := range types(a, b) {
		names := maps.Clone(a[url])
		if names == nil {
			names = make(map[string]entry)
		}
		maps.Copy(names, b[url])
		for _, name := range keys(names) {
			x, inA := a[url][name]
			y, inB := b[url][name]
			d := Difference{URL: url, Name: name, HereVersion: x.version, ThereVersion: y.version}
			switch {
			case !inB:
				d.Where = OnlyHere
			case !inA:
				d.Where = OnlyThere
			case sameBody(url, x.body, y.body):
				c.Same++
				continue
			default:
				d.Where = Differs
				if len(c.Differences) < mostDifferences {
					fields := fielddiff.Of(wrap(url, x.body), wrap(url, y.body), mostFields)
					d.Fields, d.Omitted, d.Problem = fields.Fields, fields.Omitted, fields.Problem
				}
			}
			c.Differences = append(c.Differences, d)
		}
	}
	return c
}
