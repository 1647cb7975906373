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

// Codes of google.rpc.Status by which errors of single resources differ (C16).
const (
	CodeNotFound          = 5
	CodePermissionDenied  = 7
	CodeResourceExhausted = 8
	CodeUnavailable       = 14
)

// About is what a response says about one name beside the resources: an entry
// of resource_errors, or one of removed_resource_names.
type About struct {
	// Name is the resource's name.
	Name string
	// Variant tells variants of one name apart: it is the encoded dynamic
	// parameter constraints, "" where there are none.
	Variant string
	// Code is that of an error.
	Code int32
	// Raw is the entry as it came, without tag and length.
	Raw []byte
}

// NewError is an entry of resource_errors of the relay's own.
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

// Message is that of an error, "" where it has none.
func (a *About) Message() (message string) {
	_ = eachField(a.Raw, func(f field) error { // it could be read before
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

// readName takes in an encoded ResourceName.
func (a *About) readName(b []byte) error {
	err := eachField(b, func(f field) (err error) {
		switch f.tag {
		case nameName:
			a.Name, err = text("name", f.bytes)
		case nameConstraints:
			a.Variant += string(f.bytes) // where it stands twice, protobuf merges
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

// readError takes in an encoded ResourceError.
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
