package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/aggregation"
)

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "relay.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestPrecedence holds that flags win over variables, those over the file, and
// that over the defaults.
func TestPrecedence(t *testing.T) {
	cfg, err := Load(Input{
		File: write(t, "listener: {address: '127.0.0.1:1'}\nlimits: {max_names_per_stream: 7}\n"+
			"upstream: {addresses: ['file:1']}\ncache: {linger: 1s, confirm_timeout: 2s}\n"+
			"aggregation: {rules: [{key: node.id}, {key: node.nonsense}]}\n"),
		Env:   []string{"XDSRELAY_LISTENER_ADDRESS=127.0.0.1:2", "XDSRELAY_CACHE_LINGER=3s", "PATH=/bin"},
		Flags: []Flag{{"--listen", "listener.address", "127.0.0.1:3"}, {"--key", "aggregation.rules", "node.cluster + node.id"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Listener.Address, want.Limits.MaxNamesPerStream = "127.0.0.1:3", 7
	want.Upstream.Addresses = []string{"file:1"}
	want.Cache.Linger, want.Cache.ConfirmTimeout = 3*time.Second, 2*time.Second
	want.Aggregation.Rules = []aggregation.Rule{{Name: "key", Key: "node.cluster + node.id"}}
	if !reflect.DeepEqual(cfg, want) {
		t.Errorf("Load =\n%+v\nwant\n%+v", cfg, want)
	}
}

// TestEveryScalarHasAVariable sets each field by its variable, to a value that
// is not the default.
func TestEveryScalarHasAVariable(t *testing.T) {
	values := map[reflect.Type]string{
		reflect.TypeFor[string]():             "127.0.0.1:77",
		reflect.TypeFor[float64]():            "0.5",
		reflect.TypeFor[WildcardForm]():       "star",
		reflect.TypeFor[int]():                "12_345",
		reflect.TypeFor[time.Duration]():      "77m",
		reflect.TypeFor[Size]():               "77MiB",
		reflect.TypeFor[CompressionMode]():    "always",
		reflect.TypeFor[Variant]():            "sotw",
		reflect.TypeFor[XDSVersion]():         "v2",
		reflect.TypeFor[Level]():              "error",
		reflect.TypeFor[Format]():             "json",
		reflect.TypeFor[RedisMode]():          "cluster",
		reflect.TypeFor[LastKnownGoodStore](): "directory",
		reflect.TypeFor[[]string]():           "a:1, b:2",
		reflect.TypeFor[FileMode]():           "0600",
		reflect.TypeFor[TLSVersion]():         "1.2",
		reflect.TypeFor[ClientAuth]():         "optional",
		reflect.TypeFor[Bundles]():            "a.org=/a, b.org=/b",
	}
	before := leaves(Default())
	for i, l := range before {
		cfg := Default()
		d := &decoder{places: make(map[string]place)}
		value := values[l.value.Type()]
		if l.value.Kind() == reflect.Bool {
			value = strconv.FormatBool(!l.value.Bool())
		}
		if l.value.Interface() == any(TLS12) {
			value = "1.3"
		}
		d.decodeEnv([]string{l.env() + "=" + value}, cfg)
		if err := d.err(); err != nil {
			t.Errorf("%s: %v", l.env(), err)
			continue
		}
		for j, after := range leaves(cfg) {
			if same := reflect.DeepEqual(after.value.Interface(), before[j].value.Interface()); same == (i == j) {
				t.Errorf("%s: %s is %v", l.env(), after.path, after.value)
			}
		}
	}
	if len(before) < 25 || len(EnvNames()) != len(before) {
		t.Errorf("%d fields and %d variables", len(before), len(EnvNames()))
	}
}

// TestCommandVariables: the variables of commands that ask a node are no mistake where the
// node itself starts, and set nothing.
func TestCommandVariables(t *testing.T) {
	file := write(t, "upstream: {addresses: ['cp:1']}\n")
	plain, err := Load(Input{File: file})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Load(Input{File: file, Env: []string{"XDSRELAY_CLI_ADMIN=relay.example:19000", "XDSRELAY_CLI_ADMIN_TOKEN_FILE=/nowhere"}})
	if err != nil || !reflect.DeepEqual(got, plain) {
		t.Errorf("Load = %+v, %v", got, err)
	}
}

// TestUnknownVariables: a variable that sets no field is no mistake, but a warning with the
// nearest name; those of commands and of Kubernetes are none.
func TestUnknownVariables(t *testing.T) {
	env := []string{
		"XDSRELAY_LISTENER_ADDRRESS=x", "XDSRELAY_CLI_ADMNI=x", "XDSRELAY_LISTENER_PORT=18000", "XDSRELAY_LOG_LEVEL=info",
		"XDSRELAY_CLI_ADMIN=a:1", "XDSRELAY_CLI_ADMIN_TOKEN_FILE=/nowhere", "XDSRELAY_SERVICE_HOST=10.0.0.1", "PATH=/bin",
	}
	var want []string
	for _, names := range [][2]string{
		{"XDSRELAY_CLI_ADMNI", "XDSRELAY_CLI_ADMIN"}, {"XDSRELAY_LISTENER_ADDRRESS", "XDSRELAY_LISTENER_ADDRESS"}, {"XDSRELAY_LISTENER_PORT", "XDSRELAY_LISTENER_ADDRESS"},
	} {
		want = append(want, names[0]+": unknown environment variable, which has no effect; the nearest known name is "+names[1])
	}
	if got := UnknownVariables(env); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := Load(Input{Env: env, WithoutUpstream: true}); err != nil {
		t.Error(err)
	}
}

// TestOverrides: each field that a variable or flag sets is listed with what it replaces.
func TestOverrides(t *testing.T) {
	got := Overrides(Input{
		File: "relay.yaml", Data: []byte("listener:\n  address: '127.0.0.1:1'\naggregation:\n  rules:\n    - {key: node.id}\n"),
		Env: []string{"XDSRELAY_LISTENER_ADDRESS=127.0.0.1:2", "XDSRELAY_CACHE_LINGER=3s"},
		Flags: []Flag{
			{"--listen", "listener.address", "127.0.0.1:3"}, {"--key", "aggregation.rules", "node.cluster"},
			{"--upstream", "upstream.addresses", "a:1"}, {"--upstream", "upstream.directory", ""},
		},
	})
	want := []Override{
		{"listener.address", "--listen", []string{"XDSRELAY_LISTENER_ADDRESS", "relay.yaml:2"}},
		{"upstream.addresses", "--upstream", nil},
		{"aggregation.rules", "--key", []string{"relay.yaml:5"}},
		{"cache.linger", "XDSRELAY_CACHE_LINGER", nil},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestSettingErrors holds what is said of variables and flags, which have no
// line to show.
func TestSettingErrors(t *testing.T) {
	for _, tc := range []struct {
		name  string
		env   []string
		flags []Flag
		want  string
	}{
		{"bad value", []string{"XDSRELAY_CACHE_LINGER=60"}, nil,
			`XDSRELAY_CACHE_LINGER: cache.linger: got "60", expected a duration like 500ms, 30s or 1m30s`},
		{"out of range", []string{"XDSRELAY_LIMITS_MAX_NAMES_PER_STREAM=0"}, nil,
			"XDSRELAY_LIMITS_MAX_NAMES_PER_STREAM: limits.max_names_per_stream: is 0, expected at least 1"},
		{"octal", []string{"XDSRELAY_LIMITS_MAX_NAMES_PER_STREAM=010"}, nil,
			`XDSRELAY_LIMITS_MAX_NAMES_PER_STREAM: limits.max_names_per_stream: got "010", expected a whole number like 100_000`},
		{"both origins", []string{"XDSRELAY_UPSTREAM_DIRECTORY=testdata"}, nil,
			`XDSRELAY_UPSTREAM_DIRECTORY: upstream.directory: is "testdata", but upstream.addresses is cp:1 (line 1); use only one of the two`},
		{"bad address in a list", []string{"XDSRELAY_UPSTREAM_ADDRESSES=a:1,b"}, nil,
			`XDSRELAY_UPSTREAM_ADDRESSES: upstream.addresses[1]: got "b", expected host:port, like 127.0.0.1:18000 or [::1]:18000`},
		{"bad flag", nil, []Flag{{"--upstream-variant", "upstream.variant", "detla"}},
			`--upstream-variant: upstream.variant: got "detla", expected sotw or delta; did you mean delta?`},
		{"bad key", nil, []Flag{{"--key", "aggregation.rules", "node.clustr"}},
			"--key: aggregation.rules[0].key: line 1, column 6 of the expression: undefined field 'clustr'"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Load(Input{File: write(t, "upstream: {addresses: ['cp:1']}\n"), Env: tc.env, Flags: tc.flags})
			var wrong *Error
			if !errors.As(err, &wrong) || len(wrong.Problems) != 1 || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("Load: got\n%v\nwant\n%s", err, tc.want)
			}
		})
	}
}

// TestKubernetesVariables holds that a Service that is called xdsrelay does not
// keep its own pods from starting.
func TestKubernetesVariables(t *testing.T) {
	_, err := Load(Input{File: write(t, "upstream: {addresses: ['cp:1']}\n"), Env: []string{
		"XDSRELAY_SERVICE_HOST=10.0.0.1", "XDSRELAY_SERVICE_PORT=18000", "XDSRELAY_SERVICE_PORT_XDS=18000",
		"XDSRELAY_PORT=tcp://10.0.0.1:18000", "XDSRELAY_PORT_18000_TCP=tcp://10.0.0.1:18000",
		"XDSRELAY_PORT_18000_TCP_PROTO=tcp", "XDSRELAY_PORT_18000_TCP_PORT=18000", "XDSRELAY_PORT_18000_TCP_ADDR=10.0.0.1",
		"XDSRELAY_HEADLESS_SERVICE_HOST=10.0.0.1", "XDSRELAY_HEADLESS_PORT=tcp://10.0.0.1:1",
	}})
	if err != nil {
		t.Error(err)
	}
}

func TestFileErrorsWithoutAFile(t *testing.T) {
	if _, err := Load(Input{File: "testdata/none.yaml"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	_, err := Load(Input{File: write(t, "#"+strings.Repeat("x", maxFileSize))})
	if err == nil || !strings.Contains(err.Error(), "expected at most 1MiB") {
		t.Errorf("a huge file: %v", err)
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "0B": 0, "1B": 1, "1023B": 1023, "64KiB": 64 << 10, "16 MiB": 16 << 20, "2GiB": 2 << 30, "8589934591GiB": 8589934591 << 30,
	} {
		var got Size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
		var back Size
		if err := back.UnmarshalText([]byte(got.String())); err != nil || back != got {
			t.Errorf("%s is written as %s", text, got)
		}
	}
	for _, text := range []string{"", "B", "1", "-1B", "1.5MiB", "1MB", "8589934592GiB", "1mib", "99999999999999999999B"} {
		var got Size
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken for %d", text, got)
		}
	}
}
