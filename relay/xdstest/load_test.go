package xdstest

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestScriptedLoad runs the two ends of a stream of load reports against each
// other: what each sends is what the other sees.
func TestScriptedLoad(t *testing.T) {
	o := NewOrigin(t)
	c := Dial(t, o.Addr())
	if st := c.OpenLoad().ExpectClosed(t); st.Code() != codes.Unimplemented {
		t.Fatalf("an origin without load reports ends %v", st)
	}
	l := o.ServeLoad()
	l.NoStream(t, short)
	s := c.OpenLoad()
	if err := s.Report(); err != nil {
		t.Fatal(err)
	}
	st := l.NextStream(t)
	if m := st.Next(t); m.GetNode().GetId() != "test-client" || len(m.GetClusterStats()) != 0 || st.Node().GetId() != "test-client" {
		t.Fatalf("first message: %v", m)
	}
	st.Quiet(t, short)
	s.Quiet(t, short)
	st.Ask(t, LoadTerms(time.Minute, "c"))
	if m := s.Terms(t); m.GetClusters()[0] != "c" || m.GetSendAllClusters() || m.GetLoadReportingInterval().AsDuration() != time.Minute {
		t.Fatalf("terms: %v", m)
	}
	st.Ask(t, LoadTerms(time.Second))
	if m := s.Terms(t); !m.GetSendAllClusters() {
		t.Fatalf("terms: %v", m)
	}
	if err := s.Report(ClusterLoad("c", ZoneLoad("z", 5, 2))); err != nil {
		t.Fatal(err)
	}
	if m := st.Next(t); m.GetNode() != nil || m.GetClusterStats()[0].GetUpstreamLocalityStats()[0].GetTotalIssuedRequests() != 5 {
		t.Fatalf("report: %v", m)
	}
	if line := o.Transcript(); !strings.Contains(line, "load report c: z=5+2") || !strings.Contains(line, "load terms every 1m0s [c]") {
		t.Errorf("the transcript lacks something:%s", line)
	}
	st.Close(status.New(codes.Unavailable, "enough"))
	if end := s.ExpectClosed(t); end.Code() != codes.Unavailable || end.Message() != "enough" {
		t.Fatalf("ended %v", end)
	}

	s = c.OpenLoad()
	for range 3 {
		_ = s.Report()
	}
	s.CloseSend()
	if end := s.ExpectClosed(t); end.Code() != codes.OK {
		t.Fatalf("ended %v", end)
	}
	st = l.NextStream(t)
	st.WaitClosed(t)
	if all := st.Waiting(); len(all) != 3 || l.Opened() != 2 {
		t.Fatalf("%d messages waiting, %d streams", len(all), l.Opened())
	}
	s = c.OpenLoad()
	_ = s.Report()
	st = l.NextStream(t)
	s.Cancel()
	st.WaitClosed(t)
}
