package record

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// files is what a collector writes, cut to what is looked at, and the begin of a line that
// it has not finished.
const files = `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.instance.id","value":{"stringValue":"a"}}]},"scopeSpans":[{"spans":[
{"traceId":"01","spanId":"11","name":"update","startTimeUnixNano":"1000000","endTimeUnixNano":"9000000","attributes":[{"key":"xds.type","value":{"stringValue":"<t>"}},{"key":"xds.acks","value":{"intValue":"3"}},{"key":"xds.complete","value":{"boolValue":true}}]},
{"traceId":"01","spanId":"12","parentSpanId":"11","name":"apply","startTimeUnixNano":"1000000","endTimeUnixNano":"2000000"},
{"traceId":"02","spanId":"21","name":"update","startTimeUnixNano":"1000000","endTimeUnixNano":"2000000"},
{"traceId":"03","spanId":"31","name":"connect","startTimeUnixNano":"1000000","endTimeUnixNano":"2000000"}]}]}]}
{"resourceSpans":[{"resource":{"attributes":[{"key":"service.instance.id","value":{"stringValue":"b"}}]},"scopeSpans":[{"spans":[
{"traceId":"01","spanId":"13","parentSpanId":"11","name":"update","startTimeUnixNano":"1500000","endTimeUnixNano":"3000000"}]}]}]}
{"resourceMetrics":[{"resource":{"attributes":[{"key":"service.instance.id","value":{"stringValue":"b"}}]},"scopeMetrics":[{"metrics":[{"name":"m"}]}]}]}
{"resourceSpans":[{"resou`

// TestRead: what a collector has written is read up to where it is at, and the trace that
// shows most is found.
func TestRead(t *testing.T) {
	spans, metrics, err := Read(strings.NewReader(files))
	if err != nil || len(spans) != 5 || !metrics["b"]["m"] {
		t.Fatalf("%d spans, metrics %v, %v", len(spans), metrics, err)
	}
	root, ok := Largest(spans)
	if !ok || root.ID != "11" || root.Node != "a" || root.End.Sub(root.Start).Milliseconds() != 8 ||
		root.Attributes["xds.acks"] != int64(3) || root.Attributes["xds.complete"] != true {
		t.Errorf("the largest is %+v", root)
	}
	if below := Below(spans, root); len(below) != 2 || below[0].Name != "apply" || below[1].Node != "b" {
		t.Errorf("below it: %+v", below)
	}
	if _, _, err := Read(strings.NewReader(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"startTimeUnixNano":"x"}]}]}]}`)); err == nil {
		t.Error("no error for a time that is none")
	}
	if _, ok := Largest(nil); ok {
		t.Error("a trace among no spans")
	}
}

// TestPicture: a picture is XML, and has a row for each span of the trace.
func TestPicture(t *testing.T) {
	spans, _, err := Read(strings.NewReader(files))
	if err != nil {
		t.Fatal(err)
	}
	root, _ := Largest(spans)
	var b strings.Builder
	if err := Picture(&b, spans, root); err != nil {
		t.Fatal(err)
	}
	rects := 0
	for d := xml.NewDecoder(strings.NewReader(b.String())); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in %s", err, b.String())
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
			rects++
		}
	}
	if want := 1 + 2 + 3; rects != want { // the background, the nodes and the spans
		t.Errorf("%d boxes, expected %d: %s", rects, want, b.String())
	}
	if !strings.Contains(b.String(), "node b (follows)") || strings.Contains(b.String(), "<t>") {
		t.Errorf("%s", b.String())
	}
}
