package rest

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"

	"xdsrelay/fanout"
	"xdsrelay/fanout/authz"
	"xdsrelay/fanout/limit"
)

// answer is one response. It is immutable and may be shared by many clients.
type answer struct {
	status int
	body   []byte
	// rejection is the reason of a rejection that this package counts; empty if there is none.
	rejection string
}

// ServeHTTP answers one poll.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t := s.types[r.URL.Path]
	var a *answer
	switch {
	case r.Header.Get("Origin") != "":
		// Browsers send an Origin header with every POST, and xDS clients never do. Otherwise a web
		// site could point a host name at this node (DNS rebinding) and read the configuration
		// through the browser of a user.
		a = refuse(codes.PermissionDenied, http.StatusForbidden, "requests of web pages are refused: the request has an Origin header")
	case t == nil:
		a = refuse(codes.NotFound, http.StatusNotFound, "unknown path: expected the path of a type, such as /v3/discovery:clusters")
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		a = refuse(codes.Unimplemented, http.StatusMethodNotAllowed, "the method is "+r.Method+", expected POST")
	default:
		a = s.serve(w, r, t)
	}
	if a.status != statusGone {
		s.write(w, a)
	}
	s.metrics.answered(t, a)
}

// read reads the body of a request within the bounds of size and time. If the beginning does not
// authorize the client, it reads no more.
func (s *Server) read(w http.ResponseWriter, r *http.Request, by authz.Client) ([]byte, *answer) {
	in := http.MaxBytesReader(w, r.Body, s.cfg.MaxReceiveBytes)
	body, err := readTo(in, nil, fanout.FirstBytes)
	if err == nil {
		if err := s.authorizeEarly(body, by); err != nil {
			w.Header().Set("Connection", "close") // otherwise net/http would read the rest
			return nil, refusal(err)
		}
		body, err = readTo(in, body, int(s.cfg.MaxReceiveBytes)+1)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		s.cfg.Limits.Count(limit.MessageSize, r.RemoteAddr, "a poll is larger than limits.max_rest_request_size")
		a := refuse(codes.ResourceExhausted, http.StatusRequestEntityTooLarge,
			"the body has more than "+strconv.FormatInt(s.cfg.MaxReceiveBytes, 10)+" bytes")
		a.rejection = "" // the limit has counted it
		return nil, a
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, refuse(codes.DeadlineExceeded, http.StatusRequestTimeout, "the body did not arrive within "+s.cfg.ReadTimeout.String())
	case err != nil:
		return nil, refuse(codes.InvalidArgument, http.StatusBadRequest, "the body is cut off")
	}
	// Otherwise the deadline for the body would also end the wait for a change.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return body, nil
}

// firstRead is the initial buffer size, in bytes. Most bodies fit.
const firstRead = 4 << 10

// readTo reads until it has most bytes. Its memory follows the bytes received: the buffer doubles
// each time. The error is io.EOF at the end.
func readTo(in io.Reader, have []byte, most int) ([]byte, error) {
	for len(have) < most {
		if len(have) == cap(have) {
			have = append(make([]byte, 0, min(max(2*cap(have), firstRead), most)), have...)
		}
		n, err := in.Read(have[len(have):min(cap(have), most)])
		if have = have[:len(have)+n]; err != nil {
			return have, err
		}
	}
	return have, nil
}

func (s *Server) write(w http.ResponseWriter, a *answer) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.cfg.SendTimeout))
	h := w.Header()
	switch a.status {
	case http.StatusUnauthorized:
		h.Set("Connection", "close") // the client may reconnect with a valid certificate
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		h.Set("Retry-After", "1") // in seconds
	}
	if a.status != http.StatusNotModified {
		h.Set("Content-Type", "application/json")
		h.Set("Content-Length", strconv.Itoa(len(a.body)))
		h.Set("X-Content-Type-Options", "nosniff")
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // an error means that the client disconnected
}
