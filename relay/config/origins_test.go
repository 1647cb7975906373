package config

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

// TestFurtherOrigins: each has the fields of the first one, with the same
// defaults, and says what it serves (G3).
func TestFurtherOrigins(t *testing.T) {
	cfg, err := parseFile("origins.yaml", []byte(`
upstreams:
  - name: main
    addresses: ["cp:18000"]
    resource_timeout: 3s
    authorities: [""]
  - name: secrets
    addresses: ["sds:18000"]
    types: [Secret]
    backoff: {initial: 2s}
  - name: x
    addresses: ["x:18000"]
    authorities: [x, y]
    separate_names: [Cluster]
`))
	if err != nil {
		t.Fatal(err)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	main, secrets, x := cfg.Upstreams[0], cfg.Upstreams[1], cfg.Upstreams[2]
	want := DefaultUpstream()
	want.Addresses, want.Backoff.Initial = []string{"sds:18000"}, 2*time.Second
	if secrets.Name != "secrets" || !reflect.DeepEqual(secrets.Upstream, want) || !slices.Equal(secrets.Types, []string{"Secret"}) {
		t.Errorf("%+v", secrets)
	}
	if !slices.Equal(x.Authorities, []string{"x", "y"}) || !slices.Equal(x.SeparateNames, []string{"Cluster"}) || x.ResourceTimeout != 15*time.Second {
		t.Errorf("%+v", x)
	}
	if main.ResourceTimeout != 3*time.Second || !slices.Equal(main.Authorities, []string{""}) {
		t.Errorf("%+v", main)
	}
}
