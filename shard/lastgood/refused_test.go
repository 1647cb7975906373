package lastgood

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// TestRefusedIsNotThere: a type that is not stored has no record, also if a write that was
// cancelled arrives after the record was removed.
func TestRefusedIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := newRig(t, m, nil, clusters)
		defer r.stop()
		r.answer(clusters, res(clusters, "a", "1"))
		pass(5 * time.Second)
		late, mark := m.record("key", clusters.URL), m.mark("key", clusters.URL)
		r.answer(clusters, res(clusters, "a", "1"), res(clusters, "s", "password=x"))
		pass(5 * time.Second)
		if late == nil || m.record("key", clusters.URL) != nil {
			t.Fatal("nothing was kept, or it still is")
		}
		if err := m.Save(t.Context(), "key", clusters.URL, mark, late); err != nil {
			t.Fatal(err)
		}
		pass(3 * time.Minute)
		if m.record("key", clusters.URL) != nil {
			t.Error("an old state is kept in place of one that is not")
		}
		if n := r.log.count("not stored"); n != 1 {
			t.Errorf("%d lines in the log, expected one:\n%s", n, r.log)
		}
	})
}

// TestBehindIsNotKept: a node that is behind the tier, and cannot reach its control plane, does not
// overwrite a record that may be newer (K12).
func TestBehindIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := newRig(t, m, nil, clusters)
		defer r.stop()
		r.answer(clusters, res(clusters, "a", "1"))
		pass(5 * time.Second)
		r.group.ObserveHead(clusters, cache.TierHead{Digest: resource.Digest{1}, Version: "newer"})
		r.answer(clusters, res(clusters, "a", "2"))
		r.feed.Down(errors.New("out of reach"))
		pass(10 * time.Minute)
		if n := m.count(); n != 1 {
			t.Errorf("%d writes, expected none of a node that is behind", n-1)
		}
		e := r.group.Table(clusters).Digest()
		r.group.ObserveHead(clusters, cache.TierHead{Digest: e.Digest, Version: e.Version})
		pass(3 * time.Minute)
		if n := m.count(); n != 2 {
			t.Errorf("%d writes, expected one since the node is behind no more", n-1)
		}
	})
}

// TestConfirmedIsKept: an owner writes what its control plane serves, although the tier head
// differs: if Redis accepts no writes, the head of the previous owner may remain for hours.
func TestConfirmedIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := newRig(t, m, nil, clusters)
		defer r.stop()
		r.group.ObserveHead(clusters, cache.TierHead{Digest: resource.Digest{1}, Version: "of the owner before"})
		for i, content := range []string{"1", "2"} {
			r.answer(clusters, res(clusters, "a", content))
			pass(time.Minute)
			if e := r.group.Table(clusters).Digest(); !e.Standing.Behind() || !e.Confirmed {
				t.Fatalf("behind: %t, confirmed: %t; expected both", e.Standing.Behind(), e.Confirmed)
			}
			if n := m.count(); n != i+1 {
				t.Errorf("%d writes after %d answers of the origin, expected one for each", n, i+1)
			}
		}
	})
}

// TestEncryptedOnly: types that must be encrypted are not stored without keys, whatever they
// contain; the same applies to secrets, even if the type has none.
func TestEncryptedOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := newRig(t, m, func(c *Config) { c.Encrypted = func(t *resource.Type) bool { return t == listeners } }, clusters, secrets, listeners)
		defer r.stop()
		r.answer(clusters, res(clusters, "a", "1"))
		r.answer(listeners)
		r.answer(secrets)
		pass(time.Minute)
		if m.record("key", listeners.URL) != nil || m.record("key", secrets.URL) != nil || m.record("key", clusters.URL) == nil {
			t.Errorf("expected clusters alone to be kept:\n%s", r.log)
		}
		if n := r.log.count("only stored encrypted"); n != 2 {
			t.Errorf("%d lines say why, expected two:\n%s", n, r.log)
		}
	})
}

// TestRefused: content that may not be stored, or is too large, is not stored, and its earlier
// record is removed; it is logged once.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := newRig(t, m, func(c *Config) { c.MaxSize = 1000 }, clusters, secrets)
		defer r.stop()
		r.answer(secrets, res(secrets, "s", "secret"))
		r.answer(clusters, res(clusters, "a", "1"))
		pass(10 * time.Minute)
		if m.record("key", secrets.URL) != nil || r.log.count("not stored") != 1 {
			t.Errorf("secrets are kept without a key, or the log does not say once that they are not:\n%s", r.log)
		}
		if m.record("key", clusters.URL) == nil {
			t.Error("clusters are not kept")
		}
		var large []*resource.Resource
		for range 40 {
			id := newKey("x")
			large = append(large, res(clusters, id[:20], id))
		}
		r.answer(clusters, large...)
		pass(10 * time.Minute)
		r.answer(clusters, large[1:]...)
		pass(10 * time.Minute)
		if m.record("key", clusters.URL) != nil {
			t.Error("an old state is kept in place of one that is too large")
		}
		if n := r.log.count("not stored"); n != 2 {
			t.Errorf("%d lines in the log, expected one for each type:\n%s", n, r.log)
		}
		r.answer(clusters, res(clusters, "a", "2"))
		pass(10 * time.Second)
		if m.record("key", clusters.URL) == nil || r.log.count("last known good again") != 1 {
			t.Errorf("not kept again:\n%s", r.log)
		}
	})
}

// TestHoldsSecrets: without keys a type with a resource that has a secret is not stored, not even
// its other resources, and its earlier record is removed; as soon as no resource has a secret it is
// stored (K14).
func TestHoldsSecrets(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		t.Run(fmt.Sprintf("keys=%t", encrypted), func(t *testing.T) { testHoldsSecrets(t, encrypted) })
	}
}

// opaque returns a cluster with an extension that is configured by a text without a name.
func opaque(t *testing.T) *resource.Resource {
	t.Helper()
	config, err := anypb.New(wrapperspb.String("CANARY"))
	if err != nil {
		t.Fatal(err)
	}
	inner, err := proto.Marshal(&clusterv3.Cluster{Name: "o", TypedExtensionProtocolOptions: map[string]*anypb.Any{"wasm": config}})
	if err != nil {
		t.Fatal(err)
	}
	return resource.New(resource.Resource{Name: "o", Body: appendBytes(appendText(nil, 1, clusters.URL), 2, inner)})
}

func testHoldsSecrets(t *testing.T, encrypted bool) {
	var keys *Keys
	if encrypted {
		keys = openKeys(t, keysFile(t, newKey("one")))
	}
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := newRig(t, m, func(c *Config) { c.Keys = keys }, clusters)
		defer r.stop()
		expect := func(kept bool, lines int, all ...*resource.Resource) {
			t.Helper()
			r.answer(clusters, all...)
			pass(time.Minute)
			sealed := m.record("key", clusters.URL)
			if strings.Contains(string(sealed), "CANARY") || (sealed != nil) != (kept || encrypted) {
				t.Errorf("%d resources: %d bytes are kept", len(all), len(sealed))
			}
			if n := r.log.count("last_known_good.encryption_keys_file"); n != lines && !encrypted {
				t.Errorf("the log says %d times what to do, expected %d:\n%s", n, lines, r.log)
			}
		}
		a, b := res(clusters, "a", "1"), res(clusters, "b", "1")
		secret := res(clusters, "s", "password=CANARY")
		expect(true, 0, a, b)
		expect(false, 1, a, b, secret)
		expect(false, 1, a, res(clusters, "b", "2"), secret)
		expect(true, 1, a, res(clusters, "b", "3"))
		expect(false, 2, a, secret)
		expect(true, 2, a)
		expect(false, 3, a, opaque(t)) // only the extension knows what the text is
	})
}
