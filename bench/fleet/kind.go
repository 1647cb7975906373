package fleet

import (
	"fmt"
	"sync"
)

// Kind is a way to break the protocol. The texts are names in results.
type Kind string

// What clients check.
const (
	// Malformed: a response, or a resource in it, cannot be read, or has another
	// type than its response (B30).
	Malformed Kind = "malformed"
	// NoNonce: a response without a nonce (B5).
	NoNonce Kind = "no-nonce"
	// RepeatedNonce: a nonce that the stream has seen for that type. All clients
	// remember a few, every 64th remembers all (B5).
	RepeatedNonce Kind = "repeated-nonce"
	// UnaskedType: a response of a type that the stream has not asked for (B4).
	UnaskedType Kind = "unasked-type"
	// UnaskedName: a name that the client has never asked for on the stream (B31, D12).
	UnaskedName Kind = "unasked-name"
	// ForeignName: a name of another key, or of none (K6).
	ForeignName Kind = "foreign-name"
	// DuplicateName: a name that stands twice in a response (B29).
	DuplicateName Kind = "duplicate-name"
	// Incomplete: a full state without a resource that exists (B27).
	Incomplete Kind = "incomplete"
	// Removed: the removal of a resource that exists (K13).
	Removed Kind = "removed"
	// NoVersion: a response or a resource without a version (D7, D14).
	NoVersion Kind = "no-version"
	// Resent: what the client is known to hold, without a reason to say it again
	// (B28, B31, B37). After a cluster, its endpoints may come again (E3).
	Resent Kind = "resent"
	// ResentRejected: what the client has just rejected, unchanged (B14). That holds for
	// endpoints until their cluster changes (E3), for which a client waits with warming.
	ResentRejected Kind = "resent-rejected"
	// VersionReused: one version for two contents (D7).
	VersionReused Kind = "version-reused"
	// VersionDiffers: two versions for one content, at two clients or at one
	// (K11).
	VersionDiffers Kind = "version-differs"
	// WentBack: an older revision than the client has.
	WentBack Kind = "went-back"
	// Altered: a body that is not the origin's, byte for byte (D2).
	Altered Kind = "altered"
	// Transport: a breach of HTTP/2.
	Transport Kind = "http2"
)

// Violation is how often the protocol was broken in a way.
type Violation struct {
	Count int64 `json:"count"`
	// First describes the first one.
	First string `json:"first"`
}

// Violations counts what broke the protocol. It may be used by any number of
// goroutines.
type violations struct {
	mu    sync.Mutex
	kinds map[Kind]*Violation // guarded by mu
}

// problem is a violation that was found.
type problem struct {
	kind Kind
	text string
}

func problemf(k Kind, format string, args ...any) problem {
	return problem{k, fmt.Sprintf(format, args...)}
}

func (v *violations) add(who string, found ...problem) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range found {
		if v.kinds == nil {
			v.kinds = make(map[Kind]*Violation)
		}
		if v.kinds[p.kind] == nil {
			v.kinds[p.kind] = &Violation{First: who + ": " + p.text}
		}
		v.kinds[p.kind].Count++
	}
}

// snapshot is a copy.
func (v *violations) snapshot() map[Kind]Violation {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := make(map[Kind]Violation, len(v.kinds))
	for k, n := range v.kinds {
		out[k] = *n
	}
	return out
}
