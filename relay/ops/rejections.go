package ops

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"
)

// Bounds of what a node reports of rejections: how many reasons, and of how many keys each.
const (
	mostReasons  = 10
	mostRejected = 500
	// mostCounted bounds the reasons that are counted at all: clients choose the text.
	mostCounted = 100
)

// Rejection is a reason for which clients reject a type, whichever keys they have.
type Rejection struct {
	URL     string `json:"type_url"`
	Name    string `json:"type"`
	Message string `json:"message"`
	// Clients and Keys are how many; MoreKeys says that there are further keys.
	Clients  int  `json:"clients"`
	Keys     int  `json:"keys"`
	MoreKeys bool `json:"more_keys,omitempty"`
	// Since is when the first of them rejected it, Client and Key are one of them.
	Since  time.Time `json:"since"`
	Client string    `json:"client"`
	Key    string    `json:"key"`
	// Version is what they all rejected; empty if they rejected several versions.
	Version string `json:"version,omitempty"`
	// Hashes stand for the keys between nodes, which may have the same.
	Hashes []uint32 `json:"hashes,omitempty"`
}

func (r *Rejection) add(o *Rejection) {
	r.Clients += o.Clients
	r.Hashes, r.MoreKeys = addHashes(r.Hashes, r.MoreKeys || o.MoreKeys, o.Hashes)
	r.Keys = len(r.Hashes)
	if o.Since.Before(r.Since) {
		r.Since, r.Client, r.Key = o.Since, o.Client, o.Key
	}
	if o.Version != r.Version {
		r.Version = ""
	}
}

// addHashes adds hashes of keys to a sorted list that is bounded; more says that there are further ones.
func addHashes(to []uint32, more bool, hashes []uint32) ([]uint32, bool) {
	for _, h := range hashes {
		switch at, known := slices.BinarySearch(to, h); {
		case known:
		case len(to) >= mostRejected:
			more = true
		default:
			to = slices.Insert(to, at, h)
		}
	}
	return to, more
}

// addRejection adds one to those with other reasons.
func addRejection(all []Rejection, one Rejection) []Rejection {
	i := slices.IndexFunc(all, func(r Rejection) bool { return r.URL == one.URL && r.Message == one.Message })
	if i >= 0 {
		all[i].add(&one)
		return all
	}
	if len(all) == mostCounted {
		return all
	}
	one.Hashes = slices.Clone(one.Hashes)
	return append(all, one)
}

// rejected adds what a client rejects.
func (s *Sums) rejected(c *Client) {
	for i := range c.Types {
		t := &c.Types[i]
		if t.Nack == nil {
			continue
		}
		h := fnv.New32a()
		_, _ = h.Write([]byte(c.Key)) // never fails
		s.Rejections = addRejection(s.Rejections, Rejection{
			URL: t.URL, Name: t.Name, Message: t.Nack.Message, Clients: 1, Keys: 1, Since: t.Nack.At, Client: c.Name, Key: c.Key, Version: t.Nack.Version, Hashes: []uint32{h.Sum32()},
		})
	}
}

// String is the reason with the number of its clients and keys.
func (r *Rejection) String() string {
	count := func(n int, thing string, more bool) string {
		text := fmt.Sprintf("%d %s", n, thing)
		if n != 1 {
			text += "s"
		}
		if more {
			text = "at least " + text
		}
		return text
	}
	return fmt.Sprintf("%s rejected by %s of %s, such as client %s: %s", r.Name, count(r.Clients, "client", false), count(r.Keys, "key", r.MoreKeys), r.Client, r.Message)
}

// mostCommon are the reasons of most clients.
func mostCommon(all []Rejection) []Rejection {
	slices.SortFunc(all, func(a, b Rejection) int {
		return cmp.Or(cmp.Compare(b.Clients, a.Clients), strings.Compare(a.URL, b.URL), strings.Compare(a.Message, b.Message))
	})
	return all[:min(len(all), mostReasons)]
}
