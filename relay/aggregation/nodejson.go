package aggregation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// ParseNodeJSON reads a Node from JSON: the Node itself, or an Envoy or gRPC
// bootstrap with the Node in its "node" field. To that of a gRPC client it adds what
// all gRPC libraries announce and no bootstrap says, since the key holds it. Unknown fields are skipped, since
// a bootstrap and newer clients hold more than a Node here knows; a document in
// which nothing of a Node is found is an error.
func ParseNodeJSON(data []byte) (*corev3.Node, error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(data, &top); err != nil {
		return nil, fmt.Errorf("node file: %w; expected a JSON object%s", err, placeOf(data, err))
	}
	if top == nil {
		return nil, errors.New("node file: is null, expected a JSON object")
	}
	where := "node file"
	if inner, ok := top["node"]; ok {
		data, where = inner, `node file, field "node"`
		if !bytes.HasPrefix(bytes.TrimSpace(inner), []byte("{")) {
			return nil, fmt.Errorf("%s: expected an object", where)
		}
	}
	node := &corev3.Node{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, node); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	if proto.Size(node) == 0 {
		return nil, fmt.Errorf(`%s: has no field of a Node; expected {"id": …, "cluster": …, "metadata": …} or a bootstrap with "node"`, where)
	}
	if _, ok := top["xds_servers"]; ok {
		node.ClientFeatures = append(node.ClientFeatures, grpcFeatures[:]...)
	}
	return node, nil
}

// placeOf gives line and column of a JSON syntax error, if it has a place.
func placeOf(data []byte, err error) string {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) || syntax.Offset < 1 || syntax.Offset > int64(len(data)) {
		return ""
	}
	before := data[:syntax.Offset-1]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := len(before) - bytes.LastIndexByte(before, '\n')
	return fmt.Sprintf(" (line %d, column %d)", line, column)
}
