package config

import (
	"strings"
	"testing"
)

// TestQuotedModes: permissions are a text, since a number in octal means another number to
// some writers of YAML; the mistake says so.
func TestQuotedModes(t *testing.T) {
	cfg, err := parseFile("relay.yaml", []byte(`listener: {socket_mode: "0600"}`))
	if err != nil || cfg.Listener.SocketMode != 0o600 {
		t.Errorf("quoted: %v, %v", cfg, err)
	}
	for _, text := range []string{"0600", "600", "0o600"} {
		_, err := parseFile("relay.yaml", []byte("listener: {socket_mode: "+text+"}"))
		if err == nil || !strings.Contains(err.Error(), `in quotes, like "0660"`) {
			t.Errorf("%s without quotes: %v", text, err)
		}
	}
}

// TestOneForm: a list and the section that is its shorthand exclude one another, wherever
// they are set; the mistake names both places.
func TestOneForm(t *testing.T) {
	const upstream = "upstream: {addresses: ['cp:1']}\n"
	for _, tc := range []struct {
		name, file string
		env        []string
		flags      []Flag
		want       string
	}{
		{"section alone", upstream + "listener: {address: '127.0.0.1:1'}\nlisteners: []\n", nil, nil, ""},
		{"list alone", "upstreams: [{name: a, addresses: ['cp:1']}]\nupstream:\nlisteners: [{name: a, address: '127.0.0.1:1'}]\n", nil, nil, ""},
		{"listeners", upstream + "listener: {address: '127.0.0.1:1'}\nlisteners: [{name: a, address: '127.0.0.1:2'}]\n", nil, nil,
			"x.yaml:3:12: listeners: is set, and listener is set as well (line 2); use only one of the two"},
		{"upstreams", upstream + "upstreams: [{name: a, addresses: ['cp:2']}]\n", nil, nil,
			"x.yaml:2:12: upstreams: is set, and upstream is set as well (line 1); use only one of the two"},
		{"variable", upstream + "listeners: [{name: a, address: '127.0.0.1:2'}]\n", []string{"XDSRELAY_LISTENER_ADDRESS=127.0.0.1:1"}, nil,
			"x.yaml:2:12: listeners: is set, and listener is set as well (XDSRELAY_LISTENER_ADDRESS); use only one of the two"},
		{"flag", "upstreams: [{name: a, addresses: ['cp:1']}]\n", nil, []Flag{{"--upstream", "upstream.addresses", "cp:2"}},
			"x.yaml:1:12: upstreams: is set, and upstream is set as well (--upstream); use only one of the two"},
	} {
		_, err := Load(Input{File: "x.yaml", Data: []byte(tc.file), Env: tc.env, Flags: tc.flags})
		if got := errorText(err); tc.want == "" && got != "" || !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}
