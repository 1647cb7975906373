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

// contentKey identifies an answer, which all clients of a key share that see the same content of a
// type. The key is part of it although the version proves the content, so that no error can mix
// keys.
type contentKey struct {
	key             aggregation.Key
	typeURL         string
	version, source string
}

// encode encodes the content of a subscription as a DiscoveryResponse in JSON, or as a refusal if
// that is impossible.
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

// identifier returns control_plane.identifier: this node and the control plane behind it (K7).
func (s *Server) identifier(source string) string {
	if source == "" {
		return s.cfg.NodeName
	}
	return s.cfg.NodeName + " <- " + source
}

func appendText(b []byte, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string can always be encoded
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
