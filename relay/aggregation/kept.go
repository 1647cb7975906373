package aggregation

import (
	"errors"

	"cel.dev/cel-go/cel"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protowire"
)

// Reads is what the value of a rule depends on: fields of the Node, and what the client does not
// say about itself.
type Reads struct {
	Fields
	// Client is set if the rule reads the certificate, the address or the listener.
	Client bool
}

// Fields of a Node that every rule reads: the id, and the features that are a part of each key (K5).
const (
	idNumber       protowire.Number = 1
	featuresNumber protowire.Number = 10
	alwaysRead                      = 1<<idNumber | 1<<featuresNumber
)

// of adds what an expression reads; nil adds nothing.
func (r *Reads) of(checked *cel.Ast) {
	if checked == nil {
		return
	}
	c := Condition{reads: r.Fields, client: r.Client}
	c.look(checked.NativeRep().Expr())
	r.Fields, r.Client = c.reads, c.client
}

// ErrNotKept is returned by [Rules.ResolveKept] if the part that is kept of a Node does not say
// which key the client gets.
var ErrNotKept = errors.New("a rule reads fields of the Node that are not kept")

// notKept stands for ErrNotKept. It is no refusal.
var notKept = &Refusal{}

// ResolveKept is [Rules.Resolve] for a client of which only a part of the Node is kept. kept reports
// whether everything that a rule reads is there; it is called for each rule until one matches. The
// error is ErrNotKept or a [*Refusal].
func (rs *Rules) ResolveKept(node *corev3.Node, peer Peer, kept func(Reads) bool) (Result, error) {
	res, refusal := rs.resolve(node, peer, kept, nil)
	switch refusal {
	case nil:
		return res, nil
	case notKept:
		return Result{}, ErrNotKept
	}
	return Result{}, refusal
}

// ShareSecrets is that of a rule by its name.
func (rs *Rules) ShareSecrets(rule string) bool {
	for i := range rs.rules {
		if rs.rules[i].name == rule {
			return rs.rules[i].config.ShareSecrets
		}
	}
	return false
}
