package resource

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Tags of ResourceName, ResourceError and google.rpc.Status.
const (
	nameName, nameConstraints = 1<<3 | 2, 2<<3 | 2
	errorName, errorDetail    = 1<<3 | 2, 2<<3 | 2
	detailCode, detailMessage = 1 << 3, 2<<3 | 2
)

// Codes of google.rpc.Status in the errors of single resources (C16).
const (
	CodeNotFound          = 5
	CodePermissionDenied  = 7
	CodeResourceExhausted = 8
	CodeUnavailable       = 14
)

// About is what a response says about one name besides the resources: an entry of resource_errors
// or of removed_resource_names.
type About struct {
	// Name is the name of the resource.
	Name string
	// Variant distinguishes variants of one name: it is the encoded dynamic parameter constraints,
	// "" if there are none.
	Variant string
	// Code is the code of an error.
	Code int32
	// Raw is the received entry, without tag and length.
	Raw []byte
}

// NewError returns an entry of resource_errors that the relay itself creates.
func NewError(name string, code int32, message string) About {
	raw := protowire.AppendVarint(nil, errorName)
	raw = protowire.AppendVarint(raw, uint64(stringSize(nameName, name)))
	raw = appendString(raw, nameName, name)
	detail := protowire.AppendVarint(nil, detailCode)
	detail = protowire.AppendVarint(detail, uint64(code))
	detail = appendString(detail, detailMessage, message)
	raw = protowire.AppendVarint(raw, errorDetail)
	return About{Name: name, Code: code, Raw: protowire.AppendBytes(raw, detail)}
}

// Message returns the message of an error, "" if it has none.
func (a *About) Message() (message string) {
	_ = eachField(a.Raw, func(f field) error { // it was decoded before
		if f.tag != errorDetail {
			return nil
		}
		return eachField(f.bytes, func(f field) error {
			if f.tag == detailMessage {
				message = string(f.bytes)
			}
			return nil
		})
	})
	return message
}

// readName decodes a ResourceName.
func (a *About) readName(b []byte) error {
	err := eachField(b, func(f field) (err error) {
		switch f.tag {
		case nameName:
			a.Name, err = text("name", f.bytes)
		case nameConstraints:
			a.Variant += string(f.bytes) // protobuf merges repeated constraints
		}
		return err
	})
	if err == nil {
		err = a.checkName(b)
	}
	if err != nil {
		return fmt.Errorf("resource name: %w", err)
	}
	return nil
}

// readError decodes a ResourceError.
func (a *About) readError(b []byte) error {
	var name, detail []byte
	err := eachField(b, func(f field) error {
		switch f.tag {
		case errorName:
			name = merge(name, f.bytes)
		case errorDetail:
			detail = merge(detail, f.bytes)
		}
		return nil
	})
	if err == nil {
		err = a.readName(name)
	}
	if err == nil {
		err = eachField(detail, func(f field) error {
			if f.tag == detailCode {
				a.Code = int32(f.varint)
			}
			return nil
		})
	}
	if err == nil {
		err = checkError(b)
	}
	if err != nil {
		return fmt.Errorf("resource error: %w", err)
	}
	return nil
}
