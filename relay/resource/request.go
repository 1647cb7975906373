package resource

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of DiscoveryRequest and DeltaDiscoveryRequest.
const (
	sotwReqVersion, sotwReqNode, sotwReqNames, sotwReqType, sotwReqNonce, sotwReqError, sotwReqLocators = 1, 2, 3, 4, 5, 6, 7

	deltaReqNode, deltaReqType, deltaReqSubscribe, deltaReqUnsubscribe, deltaReqVersions = 1, 2, 3, 4, 5
	deltaReqNonce, deltaReqError, deltaReqSubLocators, deltaReqUnsubLocators             = 6, 7, 8, 9

	statusCode, statusMessage = 1, 2
)

// Held is a resource that a client says it holds.
type Held struct{ Name, Version string }

// Request is what one DiscoveryRequest or DeltaDiscoveryRequest of a client
// says. Which of the fields are used depends on the variant.
type Request struct {
	// TypeURL is what the request is about; may be empty on a per-type
	// service (A5).
	TypeURL string
	// Node is the encoded Node, nil where the request has none.
	Node []byte
	// Nonce is response_nonce.
	Nonce string
	// Rejected says that error_detail is present: the request is a NACK,
	// whatever else it says (B13). ErrorCode and ErrorMessage are its content.
	Rejected     bool
	ErrorCode    int32
	ErrorMessage string

	// Version is version_info and Names is resource_names (SotW).
	Version string
	Names   []string

	// Subscribe, Unsubscribe and Held are resource_names_subscribe,
	// resource_names_unsubscribe and initial_resource_versions (delta).
	Subscribe, Unsubscribe []string
	Held                   []Held

	// Locators says that the request uses resource_locators (G9).
	Locators bool
}

// DecodeSotWRequest reads an encoded DiscoveryRequest. Nothing in the result
// refers to b.
func DecodeSotWRequest(b []byte, r *Request) error {
	*r = Request{}
	return eachField(b, func(num protowire.Number, _ protowire.Type, v []byte, _ uint64, _ []byte) (err error) {
		switch num {
		case sotwReqVersion:
			r.Version, err = text("version_info", v)
		case sotwReqNode:
			err = r.addNode(v)
		case sotwReqNames:
			r.Names, err = appendText(r.Names, "resource_names", v)
		case sotwReqType:
			r.TypeURL, err = typeURL(v)
		case sotwReqNonce:
			r.Nonce, err = text("response_nonce", v)
		case sotwReqError:
			err = r.addError(v)
		case sotwReqLocators:
			r.Locators = true
		}
		return err
	})
}

// DecodeDeltaRequest reads an encoded DeltaDiscoveryRequest. Nothing in the
// result refers to b.
func DecodeDeltaRequest(b []byte, r *Request) error {
	*r = Request{}
	return eachField(b, func(num protowire.Number, _ protowire.Type, v []byte, _ uint64, _ []byte) (err error) {
		switch num {
		case deltaReqNode:
			err = r.addNode(v)
		case deltaReqType:
			r.TypeURL, err = typeURL(v)
		case deltaReqSubscribe:
			r.Subscribe, err = appendText(r.Subscribe, "resource_names_subscribe", v)
		case deltaReqUnsubscribe:
			r.Unsubscribe, err = appendText(r.Unsubscribe, "resource_names_unsubscribe", v)
		case deltaReqVersions:
			err = r.addHeld(v)
		case deltaReqNonce:
			r.Nonce, err = text("response_nonce", v)
		case deltaReqError:
			err = r.addError(v)
		case deltaReqSubLocators, deltaReqUnsubLocators:
			r.Locators = true
		}
		return err
	})
}

// typeURL avoids an allocation for the types that everybody uses: it is read
// for every ACK.
func typeURL(v []byte) (string, error) {
	if t, ok := byURL[string(v)]; ok {
		return t.URL, nil
	}
	return text("type_url", v)
}

func appendText(to []string, field string, v []byte) ([]string, error) {
	s, err := text(field, v)
	return append(to, s), err
}

func (r *Request) addNode(v []byte) error {
	if v == nil {
		return errors.New("node is not a message")
	}
	r.Node = append(r.Node, v...) // repeated singular messages merge
	if r.Node == nil {
		r.Node = []byte{}
	}
	return nil
}

func (r *Request) addHeld(v []byte) error {
	var h Held
	err := eachField(v, func(num protowire.Number, _ protowire.Type, v []byte, _ uint64, _ []byte) (err error) {
		switch num {
		case 1:
			h.Name, err = text("a name in initial_resource_versions", v)
		case 2:
			h.Version, err = text("a version in initial_resource_versions", v)
		}
		return err
	})
	if err != nil {
		return err
	}
	if v == nil {
		return errors.New("initial_resource_versions holds something that is not a map entry")
	}
	r.Held = append(r.Held, h)
	return nil
}

func (r *Request) addError(v []byte) error {
	if v == nil {
		return errors.New("error_detail is not a message")
	}
	r.Rejected = true
	err := eachField(v, func(num protowire.Number, _ protowire.Type, v []byte, n uint64, _ []byte) (err error) {
		switch num {
		case statusCode:
			r.ErrorCode = int32(n)
		case statusMessage:
			r.ErrorMessage, err = text("error_detail.message", v)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("error_detail: %w", err)
	}
	return nil
}
