package record

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// FuzzRead: a recording that is damaged is an error, and whatever can be read of one
// stays what it is when it is written again.
func FuzzRead(f *testing.F) {
	zip, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		f.Fatal(err)
	}
	lines, err := json.Marshal(Event{
		Seq: 1, Kind: ClientGot, Client: "c", Stream: 2, Type: "t", Resources: []Resource{{Name: "a", Serial: 7}},
		Removed: []string{"b"}, Wants: map[string][]string{"t": {"a"}},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(lines)
	f.Add(bytes.Repeat(lines, 3))
	f.Add(zip.EncodeAll(lines, nil))
	f.Add([]byte(`{"Kind":3}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		_ = read(bytes.NewReader(content), func(*Event) error { return nil }) // as a file
		var first, again bytes.Buffer
		var events []Event
		err := read(bytes.NewReader(zip.EncodeAll(content, nil)), func(e *Event) error { // as what is in a file
			_ = e.String()
			events = append(events, *e)
			return json.NewEncoder(&first).Encode(e)
		})
		if err == nil && len(events) == 0 && len(bytes.TrimSpace(content)) > 0 {
			t.Fatalf("nothing was read of %q", content)
		}
		if err := read(bytes.NewReader(zip.EncodeAll(first.Bytes(), nil)), func(e *Event) error {
			return json.NewEncoder(&again).Encode(e)
		}); err != nil || !bytes.Equal(first.Bytes(), again.Bytes()) {
			t.Errorf("%q became %q, %v", first.Bytes(), again.Bytes(), err)
		}
	})
}

// FuzzStamp: what was stamped is found, whatever stands around it.
func FuzzStamp(f *testing.F) {
	f.Add("key-1", 42, []byte("\x0a\x05"), []byte("more"))
	f.Add("", -1, []byte("stam"), []byte("stamp:"))
	f.Fuzz(func(t *testing.T, key string, serial int, before, after []byte) {
		_, _, _ = ReadStamp(after)
		if bytes.ContainsAny([]byte(key), ":;") || bytes.Contains(append(bytes.Clone(before), stampBegin[:len(stampBegin)-1]...), []byte(stampBegin)) {
			return
		}
		body := append(append(bytes.Clone(before), Stamp(key, serial)...), after...)
		gotKey, gotSerial, ok := ReadStamp(body)
		if want := []any{key, serial, true}; !reflect.DeepEqual([]any{gotKey, gotSerial, ok}, want) {
			t.Errorf("%q: %q, %d, %t, expected %v", body, gotKey, gotSerial, ok, want)
		}
	})
}
