package csds

import (
	"io"
	"net/http"

	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"xdsrelay/relay/resource"
)

// Path is where HTTP clients ask, and ParamNode the parameter of the query that names the
// only node wanted.
const (
	Path      = "/v3/discovery:client_status"
	ParamNode = "node"
)

// maxRequest bounds the body of a request, in bytes.
const maxRequest = 1 << 20

// ServeHTTP answers a POST whose body is a ClientStatusRequest as JSON with one
// ClientStatusResponse as JSON, of any size. Resources that hold what JSON cannot
// spell out, such as a time out of its range, are shown without their contents. With
// ?node= it tells of one node of the tier.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		http.Error(w, "cannot read the request: "+err.Error(), http.StatusBadRequest)
		return
	}
	req := &statusv3.ClientStatusRequest{}
	if len(body) > 0 {
		if err := (protojson.UnmarshalOptions{RecursionLimit: resource.MaxNesting}).Unmarshal(body, req); err != nil {
			http.Error(w, "the request is not a ClientStatusRequest: "+err.Error(), http.StatusBadRequest)
			return
		}
	}
	out := jsonWriter{w: w}
	if err := s.answer(r.Context(), req, r.URL.Query().Get(ParamNode), &pages{limit: streamed, send: out.write}); err != nil {
		if out.begun {
			panic(http.ErrAbortHandler) // nobody should take a part for the whole
		}
		http.Error(w, status.Convert(err).Message(), http.StatusBadRequest)
		return
	}
	out.end()
}

// jsonWriter writes a response config by config.
type jsonWriter struct {
	w     http.ResponseWriter
	begun bool
	err   error
}

func (j *jsonWriter) write(configs []*statusv3.ClientConfig) error {
	for _, c := range configs {
		b, err := protojson.Marshal(c)
		if err != nil {
			withoutUnspeakable(c)
			if b, err = protojson.Marshal(c); err != nil {
				return err
			}
		}
		j.text(j.separator())
		j.text(string(b))
	}
	return j.err
}

// withoutUnspeakable leaves out the contents that JSON cannot hold.
func withoutUnspeakable(c *statusv3.ClientConfig) {
	for _, g := range c.GetGenericXdsConfigs() {
		if _, err := protojson.Marshal(g.GetXdsConfig()); g.GetXdsConfig() != nil && err != nil {
			g.XdsConfig = nil
		}
	}
}

func (j *jsonWriter) separator() string {
	if j.begun {
		return ",\n"
	}
	j.begun = true
	j.w.Header().Set("Content-Type", "application/json")
	return `{"config":[` + "\n"
}

func (j *jsonWriter) end() {
	if !j.begun {
		j.text(j.separator())
	}
	j.text("]}\n")
}

func (j *jsonWriter) text(s string) {
	if j.err == nil {
		_, j.err = io.WriteString(j.w, s) // fails only where the client has gone
	}
}
