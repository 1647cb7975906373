package rest

import (
	"encoding/json"
	"fmt"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// contentKey says for whom an answer is: all clients of a key that see the same
// of a type. The key is part of it although the version proves the content, so
// that nothing could lead from one key to another.
type contentKey struct {
	key             aggregation.Key
	typeURL         string
	version, source string
}

// encode writes all that a subscription sees as a DiscoveryResponse in JSON, or
// says why it cannot be.
func (s *Server) encode(key aggregation.Key, t *resource.Type, seen cache.Seen, all []*resource.Resource) *answer {
	b := []byte(`{"versionInfo":`)
	b = appendText(b, seen.Version)
	b = append(b, `,"typeUrl":`...)
	b = appendText(b, t.URL)
	b = append(b, `,"controlPlane":{"identifier":`...)
	b = appendText(b, s.identifier(seen.Source))
	b = append(b, `},"resources":[`...)
	first := true
	for _, r := range all {
		if !r.HasSotW() {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		var err error
		if b, err = appendResource(b, s.messages(t), r); err != nil {
			err = fmt.Errorf("resource %q cannot be written as JSON: %w", r.Name, err)
			s.cfg.Logger.Error("polls fail", "key", string(key), "type", t.URL, "error", err)
			return refuse(codes.Internal, http.StatusInternalServerError, err.Error())
		}
	}
	return &answer{status: http.StatusOK, body: append(b, "]}"...)}
}

// identifier is what clients see as control_plane.identifier: this node and
// the origin behind it (K7).
func (s *Server) identifier(source string) string {
	if source == "" {
		return s.cfg.NodeName
	}
	return s.cfg.NodeName + " <- " + source
}

func appendText(b []byte, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // a text can always be written
	}
	return append(b, quoted...)
}

func appendResource(b []byte, types messageTypes, r *resource.Resource) ([]byte, error) {
	var body anypb.Any
	if err := proto.Unmarshal(r.Body, &body); err != nil {
		return b, err
	}
	if err := (writer{types}).check(body.ProtoReflect(), 0); err != nil {
		return b, err
	}
	return protojson.MarshalOptions{Resolver: types}.MarshalAppend(b, &body)
}
