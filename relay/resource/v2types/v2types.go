// Package v2types has the descriptors of version 2 of the xDS API. The Go library has dropped them,
// and JSON requires them. In binary form they are not needed.
//
// They are those of go-control-plane v0.9.9, the last release that had them
// (https://github.com/envoyproxy/go-control-plane, Apache-2.0), without the options that only code
// generators use.
package v2types

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	// Imports of the files of the set.
	_ "google.golang.org/protobuf/types/known/anypb"
	_ "google.golang.org/protobuf/types/known/durationpb"
	_ "google.golang.org/protobuf/types/known/emptypb"
	_ "google.golang.org/protobuf/types/known/structpb"
	_ "google.golang.org/protobuf/types/known/timestamppb"
	_ "google.golang.org/protobuf/types/known/wrapperspb"
)

//go:generate go -C testdata/generate run . ../../v2.binpb.gz

//go:embed v2.binpb.gz
var packed []byte

// Files returns the files of version 2: the resource types of table A-1 with their services and
// parts, and the extensions. Each call decodes them; callers should keep the result.
func Files() (*protoregistry.Files, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("descriptors of version 2: %w", err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("descriptors of version 2: %w", err)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("descriptors of version 2: %w", err)
	}
	files := new(protoregistry.Files)
	for _, d := range set.GetFile() { // imported files precede those that import them
		f, err := protodesc.NewFile(d, both{files})
		if err == nil {
			err = files.RegisterFile(f)
		}
		if err != nil {
			return nil, fmt.Errorf("descriptors of version 2: %s: %w", d.GetName(), err)
		}
	}
	return files, nil
}

// both resolves imports of files among themselves and from the program.
type both struct{ own *protoregistry.Files }

func (b both) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if f, err := b.own.FindFileByPath(path); err == nil {
		return f, nil
	}
	return protoregistry.GlobalFiles.FindFileByPath(path)
}

func (b both) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	if d, err := b.own.FindDescriptorByName(name); err == nil {
		return d, nil
	}
	return protoregistry.GlobalFiles.FindDescriptorByName(name)
}
