package resource

import "fmt"

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

// Request is a decoded DiscoveryRequest or DeltaDiscoveryRequest of a client. The variant
// determines which fields are used. Lists and bytes refer to the encoded request, and the entries
// of lists are not decoded.
type Request struct {
	// TypeURL is the type of the request; may be empty on a per-type service (A5).
	TypeURL string
	// Node is the encoded Node, nil if the request has none (B1).
	Node []byte
	// Nonce is response_nonce.
	Nonce []byte
	// Rejected is true if error_detail is present: the request is a NACK, whatever its other fields
	// are (B13). ErrorCode and ErrorMessage are its content.
	Rejected     bool
	ErrorCode    int32
	ErrorMessage string

	// Version is version_info and Names is resource_names (SotW).
	Version []byte
	Names   NameList

	// Subscribe, Unsubscribe and Held are resource_names_subscribe, resource_names_unsubscribe and
	// initial_resource_versions (delta). Of duplicate names in Held the last one counts, as in any
	// map.
	Subscribe, Unsubscribe NameList
	Held                   HeldList
	// Settled is true, between nodes, if the requesting node knows what the type has, from the control
	// plane or as last known good; that may be nothing at all.
	Settled bool
	// Errored is, between nodes, an encoded list of names for which clients of the requesting node
	// may remember an error; see [ReadErrored].
	Errored []byte

	// Locators are resource_locators (SotW) or resource_locators_subscribe (delta). Located is true
	// if the request has any, including resource_locators_unsubscribe (G9).
	Locators []Locator
	Located  bool
}

// DecodeSotWRequest decodes a DiscoveryRequest. The result refers to b.
func DecodeSotWRequest(b []byte, r *Request) error {
	*r = Request{}
	return eachRun(b, sotwRuns, func(f field) (err error) {
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

// DecodeDeltaRequest decodes a DeltaDiscoveryRequest. The result refers to b.
func DecodeDeltaRequest(b []byte, r *Request) error {
	*r = Request{}
	return eachRun(b, deltaRuns, func(f field) (err error) {
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
			err = r.Held.add(f)
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
