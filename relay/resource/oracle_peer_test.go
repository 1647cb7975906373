package resource

import (
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// checkPeer compares the decoder for responses of another node with the one for responses of a
// control plane, with b unchanged, and with m as its mark.
func checkPeer(t rapid.TB, b []byte, m PeerMark) {
	t.Helper()
	plain, rest, err := splitMark(b)
	got, peerErr := DecodePeer(b)
	if err != nil {
		if peerErr == nil {
			t.Fatalf("%x: it was read, expected an error like %v", b, err)
		}
		return
	}
	if peerErr != nil {
		t.Fatalf("%x: %v", b, peerErr)
	}
	samePeer(t, got, rest, plain)

	// A response that is marked twice has the last mark, where that has a value.
	marked, err := DecodePeer(AppendPeerMark(slices.Clone(b), m))
	if !utf8.ValidString(m.Server) || !utf8.ValidString(m.System.Version) || !utf8.ValidString(strings.Join(m.Versions, "")) {
		if err == nil {
			t.Fatalf("a server %q and a version %q were read", m.Server, m.System.Version)
		}
		return
	}
	if err != nil {
		t.Fatalf("with the mark %+v: %v", m, err)
	}
	want := plain
	if m.Edits > 0 {
		want.Edits = m.Edits
	}
	if m.Server != "" {
		want.Server = m.Server
	}
	if m.System.Version != "" {
		want.System = m.System
	}
	if len(m.Errored.Names) > 0 {
		want.Errored = m.Errored
	}
	if m.Age >= time.Millisecond {
		want.Age = m.Age.Truncate(time.Millisecond)
	}
	want.Cut, want.Kept = want.Cut || m.Cut, want.Kept || m.Kept
	for _, v := range m.Versions {
		if v != "" {
			want.Versions = append(want.Versions, v)
		}
	}
	want.Versions = want.Versions[max(0, len(want.Versions)-MaxPeerVersions):]
	samePeer(t, marked, rest, want)
}

// splitMark decodes a response like one of a control plane, for which marks are unknown fields, and
// merges those marks in their order.
func splitMark(b []byte) (mark PeerMark, rest *Response, err error) {
	var without []byte
	err = eachField(b, func(f field) (err error) {
		switch f.tag {
		case markEdits:
			mark.Edits = f.varint
		case markServer:
			mark.Server, err = text("server", f.bytes)
		case markCut:
			mark.Cut = f.varint != 0
		case markKept:
			mark.Kept = f.varint != 0
		case markAsOf:
			mark.Age = contentAge(f.varint)
		case markTrace:
			mark.Trace, err = text("trace", f.bytes)
		case markVersion:
			mark.Versions, err = appendVersion(mark.Versions, f.bytes)
		case markErrored:
			mark.Errored, err = ReadErrored(f.bytes)
		case markSystem:
			mark.System, err = readSystemVersion(f.bytes)
		default:
			without = append(without, f.raw...)
		}
		return err
	})
	if err == nil {
		rest, err = DecodeDelta(without)
	}
	return mark, rest, err
}

// samePeer checks that got is rest with a mark.
func samePeer(t rapid.TB, got, rest *Response, mark PeerMark) {
	t.Helper()
	want := *rest
	want.Mark, want.Size = mark, got.Size
	//nolint:govet // the errors compared are our own, made of texts
	if !reflect.DeepEqual(got, &want) {
		t.Fatalf("it says\n%+v, expected\n%+v", got, &want)
	}
}
