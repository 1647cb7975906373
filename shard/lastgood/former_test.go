package lastgood

import (
	"errors"
	"fmt"
	"testing"

	"go.opentelemetry.io/otel/metric/noop"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// TestSealFormer: what clients had before a revision is stored for its key alone, and without keys only if it
// may be no secret. A record is not taken for it.
func TestSealFormer(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		t.Run(fmt.Sprintf("keys=%t", encrypted), func(t *testing.T) {
			cfg := Config{Store: newMemory(), Prefix: "tier", MaxSize: 1 << 20, Logger: new(logs).logger(), Meter: noop.Meter{}}
			if encrypted {
				cfg.Keys = openKeys(t, keysFile(t, newKey("one")))
			}
			k, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			for text, want := range map[string]error{"1": nil, "password=CANARY": errHoldsSecrets} {
				r := res(clusters, "a", text)
				f, err := cache.ReceiveFormer([]cache.SharedFormer{{
					TypeURL: clusters.URL, Before: resource.AppendDelta(nil, &resource.Message{Type: clusters, Resources: []*resource.Resource{r}}), After: map[string]string{"a": "", "b": ""},
				}})
				if err != nil {
					t.Fatal(err)
				}
				if encrypted {
					want = nil
				}
				sealed, err := k.SealFormer("key", f)
				if !errors.Is(err, want) {
					t.Errorf("%s: %v, expected %v", text, err, want)
				}
				if err != nil {
					continue
				}
				again, err := k.OpenFormer("key", sealed)
				if err != nil || len(again.Resources()) != 1 || !again.Resources()[0].SameContent(r) {
					t.Errorf("%s: %+v, %v", text, again, err)
				}
				if _, err := k.OpenFormer("other", sealed); encrypted && err == nil {
					t.Error("it is of another key")
				}
				record, err := k.sealer.seal("key", clusters.URL, []byte("[]"))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := k.OpenFormer("key", record); !errors.Is(err, errForeign) {
					t.Errorf("a record: %v", err)
				}
			}
		})
	}
}
