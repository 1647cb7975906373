package record

import (
	"path/filepath"
	"reflect"
	"testing"
)

// TestStamp: what was stamped is read, and nothing else.
func TestStamp(t *testing.T) {
	key, serial, ok := ReadStamp([]byte("\x0a\x05" + Stamp("key-1", 42) + "more"))
	if key != "key-1" || serial != 42 || !ok {
		t.Errorf("ReadStamp = %q, %d, %t", key, serial, ok)
	}
	for _, body := range []string{"", "stamp:", "stamp:a:1", "stamp:a;", "stamp:a:x;"} {
		if key, serial, ok := ReadStamp([]byte(body)); ok {
			t.Errorf("ReadStamp(%q) = %q, %d, want none", body, key, serial)
		}
	}
}

// TestFile: a file gives back what was recorded, in order.
func TestFile(t *testing.T) {
	r := NewRecorder()
	r.Add(Event{Kind: Begin})
	r.Add(Event{
		Kind: ClientGot, Client: "c", Stream: r.Stream(), Type: "t", Delta: true, Bytes: 3,
		Resources: []Resource{{Name: "a", Version: "1", Key: "k", Serial: 7}}, Removed: []string{"b"},
	})
	r.Add(Event{Kind: ClientNew, Wants: map[string][]string{"t": {"a"}}})
	events := r.Take()
	if len(events) != 3 || events[2].Seq != 3 || len(r.Take()) != 0 {
		t.Fatalf("Take = %v", events)
	}

	if !r.AddNext(Event{Kind: Rest}) || r.AddNext(Event{Kind: Rest}) {
		t.Error("AddNext adds where there is something new, or does not where there is nothing")
	}

	path := filepath.Join(t.TempDir(), "events")
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Write(events[:1]); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(events[1:]); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var got []Event
	if err := Read(path, func(e *Event) error { got = append(got, *e); return nil }); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, events) {
		t.Errorf("read\n%v\nwant\n%v", got, events)
	}
}
