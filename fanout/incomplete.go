package fanout

import (
	"fmt"
	"time"

	"google.golang.org/grpc/status"

	"xdsrelay/fanout/conn"
	"xdsrelay/fanout/limit"
)

// firstGrace is how much later the connection guard ends a stream without a first request than its
// handler does, whose reason is more precise.
const firstGrace = time.Second

// leastStreams is above the number of streams that a client may open before it knows the limit.
const leastStreams = 1000

// bounds returns the bounds for incomplete requests.
func (s *Server) bounds() conn.Bounds {
	v := s.cfg.Limits.Values()
	return conn.Bounds{First: s.cfg.FirstRequestTimeout + firstGrace, Request: v.RequestTimeout, Size: v.PartialSize, Streams: 4 * max(v.StreamsPerConnection, leastStreams)}
}

// faulty counts a client that exceeds the bounds, and returns the reason for the client.
func (s *Server) faulty(from string, fault conn.Fault) string {
	v := s.cfg.Limits.Values()
	name, why := limit.RequestTimeout, fmt.Sprintf("a request was not complete within %v (%s)", v.RequestTimeout, limit.RequestTimeout.About().Field)
	switch fault {
	case conn.LateFirst:
		name, why = limit.FirstRequest, status.Convert(errNoRequest).Message()
	case conn.LateFrame:
		why = fmt.Sprintf("a frame, or the headers of a stream, were not complete within %v (%s)", v.RequestTimeout, limit.RequestTimeout.About().Field)
	case conn.TooMuch:
		name, why = limit.PartialSize, fmt.Sprintf("more than %d bytes of incomplete requests arrived on this connection (%s)", v.PartialSize, limit.PartialSize.About().Field)
	case conn.TooMany:
		name, why = limit.StreamsPerConnection, fmt.Sprintf("incomplete requests arrived on more streams of this connection than it may have (%s)", limit.StreamsPerConnection.About().Field)
	}
	s.cfg.Limits.Count(name, from, why)
	return why
}
