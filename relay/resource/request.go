package resource

import (
	"fmt"
	"math"
	"strings"
)

// Tags of DiscoveryRequest, DeltaDiscoveryRequest and google.rpc.Status.
const (
	sotwReqVersion, sotwReqNode, sotwReqNames  = 1<<3 | 2, 2<<3 | 2, 3<<3 | 2
	sotwReqType, sotwReqNonce, sotwReqError    = 4<<3 | 2, 5<<3 | 2, 6<<3 | 2
	sotwReqLocators                            = 7<<3 | 2
	deltaReqNode, deltaReqType                 = 1<<3 | 2, 2<<3 | 2
	deltaReqSubscribe, deltaReqUnsubscribe     = 3<<3 | 2, 4<<3 | 2
	deltaReqVersions, deltaReqNonce            = 5<<3 | 2, 6<<3 | 2
	deltaReqError                              = 7<<3 | 2
	deltaReqSubLocators, deltaReqUnsubLocators = 8<<3 | 2, 9<<3 | 2

	mapKey, mapValue          = 1<<3 | 2, 2<<3 | 2
	statusCode, statusMessage = 1 << 3, 2<<3 | 2
)

// Held is a resource that a client says it holds.
type Held struct{ Name, Version string }

// Request is what one DiscoveryRequest or DeltaDiscoveryRequest of a client
// says. Which of the fields are used depends on the variant. Lists and bytes
// refer to the encoded request, and lists have not been looked into.
type Request struct {
	// TypeURL is what the request is about; may be empty on a per-type
	// service (A5).
	TypeURL string
	// Node is the encoded Node, nil where the request has none (B1).
	Node []byte
	// Nonce is response_nonce.
	Nonce []byte
	// Rejected says that error_detail is present: the request is a NACK,
	// whatever else it says (B13). ErrorCode and ErrorMessage are its content.
	Rejected     bool
	ErrorCode    int32
	ErrorMessage string

	// Version is version_info and Names is resource_names (SotW).
	Version []byte
	Names   NameList

	// Subscribe, Unsubscribe and Held are resource_names_subscribe,
	// resource_names_unsubscribe and initial_resource_versions (delta). A name
	// that stands twice in Held counts as it stands last, as in any map.
	Subscribe, Unsubscribe NameList
	Held                   []Held
	// Settled says, between nodes, that the other one knows from the origin what there
	// is of the type, which may be nothing at all.
	Settled bool
	// Errored is an encoded list of names, between nodes, of which clients of the other one
	// may remember an error; see [ReadErrored].
	Errored []byte

	// Locators are resource_locators (SotW) or resource_locators_subscribe
	// (delta). Located says that the request has any, resource_locators_unsubscribe
	// included (G9).
	Locators []Locator
	Located  bool
}

// DecodeSotWRequest reads an encoded DiscoveryRequest. The result refers to b.
func DecodeSotWRequest(b []byte, r *Request) error {
	*r = Request{}
	return eachRun(b, sotwReqNames, func(f field) (err error) {
		switch f.tag {
		case sotwReqVersion:
			r.Version, err = f.bytes, checkText("version_info", f.bytes)
		case sotwReqNode:
			r.Node = mergeIn(r.Node, f.bytes)
		case sotwReqNames:
			r.Names.add(f)
		case sotwReqType:
			r.TypeURL, err = requestType(f.bytes)
		case sotwReqNonce:
			r.Nonce, err = f.bytes, checkText("response_nonce", f.bytes)
		case sotwReqError:
			err = r.addError(f.bytes)
		case sotwReqLocators:
			r.Located = true
			err = r.addLocator(f.bytes)
		}
		return err
	})
}

// DecodeDeltaRequest reads an encoded DeltaDiscoveryRequest. The result refers
// to b.
func DecodeDeltaRequest(b []byte, r *Request) error {
	*r = Request{}
	if len(b) > manyHeld { // else a list that grows costs little
		n, err := countFields(b, deltaReqVersions, math.MaxInt)
		if err != nil {
			return err
		}
		if n > 0 {
			r.Held = make([]Held, 0, n)
		}
	}
	return eachRun(b, deltaReqSubscribe, func(f field) (err error) {
		switch f.tag {
		case deltaReqNode:
			r.Node = mergeIn(r.Node, f.bytes)
		case deltaReqType:
			r.TypeURL, err = requestType(f.bytes)
		case deltaReqSubscribe:
			r.Subscribe.add(f)
		case deltaReqUnsubscribe:
			r.Unsubscribe.add(f)
		case deltaReqVersions:
			err = r.addHeld(f.bytes)
		case deltaReqNonce:
			r.Nonce, err = f.bytes, checkText("response_nonce", f.bytes)
		case deltaReqError:
			err = r.addError(f.bytes)
		case deltaReqSubLocators:
			r.Located = true
			err = r.addLocator(f.bytes)
		case deltaReqUnsubLocators:
			r.Located = true
		case markSettled:
			r.Settled = f.varint != 0
		case markRequestErrored:
			r.Errored = f.bytes
		}
		return err
	})
}

// manyHeld is the size in bytes from which it pays to count what a request lists first.
const manyHeld = 4 << 10

func (r *Request) addHeld(b []byte) error {
	var name, version []byte
	err := eachField(b, func(f field) error {
		switch f.tag {
		case mapKey:
			name = f.bytes
			return checkText("a name in initial_resource_versions", name)
		case mapValue:
			version = f.bytes
			return checkText("a version in initial_resource_versions", version)
		}
		return nil
	})
	// Both in one piece of memory: there may be very many.
	var both strings.Builder
	both.Grow(len(name) + len(version))
	both.Write(name)
	both.Write(version)
	r.Held = append(r.Held, Held{both.String()[:len(name)], both.String()[len(name):]})
	return err
}

func (r *Request) addError(b []byte) error {
	r.Rejected = true
	err := eachField(b, func(f field) (err error) {
		switch f.tag {
		case statusCode:
			r.ErrorCode = int32(f.varint)
		case statusMessage:
			r.ErrorMessage, err = text("message", f.bytes)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("error_detail: %w", err)
	}
	return nil
}
