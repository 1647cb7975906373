package amplify

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// readFiles reads a configuration and all files that it names, as a node does when it
// starts and as the command check does.
func readFiles(path string) {
	cfg, err := config.Load(config.Input{File: path, Files: true})
	if err != nil || relay.CheckOrigins(cfg) != nil {
		return
	}
	n, err := relay.New(cfg, relay.Options{Version: "amplify", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return
	}
	ctx, end := context.WithCancel(context.Background())
	end()
	_ = n.Run(ctx) // which releases all that it has
}

// readClient reads a file with a client's Node, as the command key does.
func readClient(path string) {
	text, err := os.ReadFile(path)
	if err == nil {
		text, err = relay.NodeJSON(text)
	}
	if err == nil {
		_, _ = relay.ExplainKey(config.Default(), text, nil, "amplify") // an error is an answer
	}
}

// fileFields are configurations by a field of them that names a file: {file} is that
// file, and {dir} has good ones. A field that names a file and is not here fails the test.
var fileFields = map[string]string{
	"Certificates.cert_file":             `listener: {address: "127.0.0.1:0", tls: {cert_file: {file}, key_file: {dir}/key.pem}}`,
	"Certificates.key_file":              `listener: {address: "127.0.0.1:0", tls: {cert_file: {dir}/cert.pem, key_file: {file}}}`,
	"Certificates.ca_file":               `listener: {address: "127.0.0.1:0", tls: {cert_file: {dir}/cert.pem, key_file: {dir}/key.pem, ca_file: {file}}}`,
	"Certificates.spiffe_bundles":        `listener: {address: "127.0.0.1:0", tls: {cert_file: {dir}/cert.pem, key_file: {dir}/key.pem, spiffe_bundles: {example.org: {file}}}}`,
	"Upstream.token_file":                `upstream: {addresses: ["127.0.0.1:1"], tls: {enabled: true}, token_file: {file}}`,
	"Admin.token_file":                   `admin: {address: "127.0.0.1:0", token_file: {file}}`,
	"Admin.read_token_file":              `admin: {address: "127.0.0.1:0", token_file: {dir}/token, read_token_file: {file}}`,
	"Admin.rollout_token_file":           `admin: {address: "127.0.0.1:0", token_file: {dir}/token, rollout_token_file: {file}}`,
	"Redis.password_file":                `tier: {redis: {url: "redis://127.0.0.1:1", password_file: {file}}, peer: {address: "127.0.0.1:0"}}`,
	"Redis.sentinel_password_file":       `tier: {redis: {url: "redis://127.0.0.1:1", mode: sentinel, master_name: m, sentinel_password_file: {file}}, peer: {address: "127.0.0.1:0"}}`,
	"Peer.token_file":                    `tier: {nodes: [a=127.0.0.1:1, b=127.0.0.1:2], peer: {address: "127.0.0.1:0", advertise_address: "127.0.0.1:1", token_file: {file}}}`,
	"LastKnownGood.encryption_keys_file": `last_known_good: {store: directory, directory: {dir}/kept, encryption_keys_file: {file}}`,
	"RolloutTLS.cert_file":               `rollout: {tls: {cert_file: {file}, key_file: {dir}/key.pem}, policies: [{name: a, checks: [{name: c, webhook: "https://127.0.0.1:1/"}]}]}`,
	"RolloutTLS.key_file":                `rollout: {tls: {cert_file: {dir}/cert.pem, key_file: {file}}, policies: [{name: a, checks: [{name: c, webhook: "https://127.0.0.1:1/"}]}]}`,
	"RolloutTLS.ca_file":                 `rollout: {tls: {ca_file: {file}}, policies: [{name: a, checks: [{name: c, webhook: "https://127.0.0.1:1/"}]}]}`,
	"RolloutCheck.token_file":            `rollout: {policies: [{name: a, checks: [{name: c, webhook: "https://127.0.0.1:1/", token_file: {file}}]}]}`,
	"RolloutEvents.token_file":           `rollout: {events: {webhook: "https://127.0.0.1:1/", token_file: {file}}}`,
	// These have rows of their own: see fileRows.
	"Upstream.directory": "", "LastKnownGood.directory": "", // see shelf
	"Upstream.watched_directory": "", // of which nothing is read
}

// fieldsWithFiles are the fields of the configuration that name a file or a directory, with
// their struct. The configuration calls such a field by what it names.
func fieldsWithFiles(of reflect.Type, found map[string]bool) {
	switch of.Kind() {
	case reflect.Slice, reflect.Pointer:
		fieldsWithFiles(of.Elem(), found)
	case reflect.Struct:
		for f := range of.Fields() {
			name := f.Tag.Get("yaml")
			switch {
			case f.Type == reflect.TypeFor[config.Bundles](), strings.HasSuffix(name, "_file"), strings.HasSuffix(name, "directory"), strings.HasSuffix(name, "_path"):
				found[of.Name()+"."+name] = true
			default:
				fieldsWithFiles(f.Type, found)
			}
		}
	}
}

// contents are what a file may have that is hard to read.
func contents(t *testing.T, certificate []byte) []query {
	t.Helper()
	all := slices.Clone(values)
	repeat := func(name, text string) {
		all = append(all, query{name, func(size int) string { return strings.Repeat(text, size/len(text)) }})
	}
	repeat("many empty lines", "\n")
	repeat("equal lines", "0123456789abcdef\n")
	repeat("equal keys", "id:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n")
	repeat("equal certificates", string(certificate))
	repeat("beginnings of certificates", "-----BEGIN CERTIFICATE-----\n")
	repeat("empty certificates", "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")
	return append(all,
		query{"different keys", func(size int) string {
			var b strings.Builder
			for i := 0; b.Len() < size; i++ {
				fmt.Fprintf(&b, "%d:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n", i)
			}
			return b.String()
		}},
		query{"one huge certificate", func(size int) string {
			return "-----BEGIN CERTIFICATE-----\n" + strings.Repeat(strings.Repeat("A", 64)+"\n", size/65) + "-----END CERTIFICATE-----\n"
		}})
}

// mostFile is less than the smallest bound of a file that is not one with resources.
const mostFile = 900 << 10

// yamlOnly are texts that only YAML has.
var yamlOnly = []query{
	{"aliases of aliases", func(size int) string {
		var b strings.Builder
		b.WriteString("[&a0 [x]")
		for i := 1; b.Len() < size; i++ {
			fmt.Fprintf(&b, ", &a%d [*a%d, *a%d]", i, i-1, i-1)
		}
		return b.String() + "]"
	}},
	{"documents", func(size int) string { return "x\n" + strings.Repeat("---\nx\n", size/6) }},
	{"indentation", func(size int) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, "\n%s-", strings.Repeat(" ", i+1))
		}
		return b.String()
	}},
}

// fileRows are the rows of files that a node reads.
func fileRows(t *testing.T, n *node, all bool) (rows []row) {
	t.Helper()
	dir := t.TempDir()
	authority := xdstest.NewAuthority(t, "files")
	authority.WriteFiles(dir, "127.0.0.1")
	write(t, filepath.Join(dir, "token"), "0123456789abcdef\n")
	file, main := filepath.Join(dir, "file"), filepath.Join(dir, "main.yaml")
	read := func(t *testing.T, cfg string) {
		t.Helper()
		write(t, main, cfg)
		n.tell(t, "files "+main, &cost{})
	}
	add := func(message, field, pattern string, send func(t *testing.T, size int) int) {
		rows = append(rows, row{surface: "files", message: message, field: field, pattern: pattern, most: mostFile, send: send})
	}
	for _, field := range []string{"id", "metadata", "node", "static_resources", unknown} {
		for _, v := range slices.Concat(jsonValues(all), yamlOnly) {
			add("Node or bootstrap of a client (YAML)", field, v.name, func(t *testing.T, size int) int {
				t.Helper()
				text := fmt.Sprintf("%q: %s\n", field, v.fill(size))
				write(t, file, text)
				n.tell(t, "client "+file, &cost{})
				return len(text)
			})
		}
	}
	const base = "admin: {address: \"\"}\nmetrics: {address: \"\"}\nlistener: {address: \"127.0.0.1:0\"}\nupstream: {addresses: [\"127.0.0.1:1\"]}\n"
	without := func(section string) *strings.Builder {
		var b strings.Builder
		for line := range strings.Lines(base) {
			if !strings.HasPrefix(line, section+":") {
				b.WriteString(line)
			}
		}
		return &b
	}
	configurationRows(t, all, func(section, pattern string, fill func(int) string) {
		add("configuration (YAML)", section, pattern, func(t *testing.T, size int) int {
			t.Helper()
			b := without(section)
			fmt.Fprintf(b, "%s: %s\n", section, fill(size))
			read(t, b.String())
			return b.Len()
		})
	})
	found := make(map[string]bool)
	fieldsWithFiles(reflect.TypeFor[config.Config](), found)
	certificate, err := os.ReadFile(filepath.Join(dir, "cert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	for field := range found {
		if _, ok := fileFields[field]; !ok {
			t.Errorf("the configuration names a file in %s, of which there is no row: add it to fileFields", field)
		}
	}
	for field, cfg := range sorted(fileFields) {
		if !found[field] {
			t.Errorf("there are rows of files in %s, which the configuration does not have", field)
		}
		if cfg == "" {
			continue
		}
		section, _, _ := strings.Cut(cfg, ":")
		for _, content := range contents(t, certificate) {
			add(field, "(content)", content.name, func(t *testing.T, size int) int {
				t.Helper()
				text := content.fill(size)
				write(t, file, text)
				b := without(section)
				b.WriteString(strings.NewReplacer("{file}", file, "{dir}", dir).Replace(cfg))
				read(t, b.String()+"\n")
				return len(text)
			})
		}
	}
	return append(rows, resourceRows(t, all, func(t *testing.T, directory string) {
		t.Helper()
		b := without("upstream")
		fmt.Fprintf(b, "upstream: {directory: %s}\n", directory)
		read(t, b.String())
	})...)
}

// configurationRows are those of each section of the configuration, and of one that it
// does not have.
func configurationRows(t *testing.T, all bool, add func(section, pattern string, fill func(int) string)) {
	t.Helper()
	sections := []string{"unknown"}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[config.Config]()) {
		if name := f.Tag.Get("yaml"); name != "" {
			sections = append(sections, name)
		}
	}
	if len(sections) < 10 {
		t.Errorf("the configuration has the sections %q", sections)
	}
	for _, section := range sections {
		for _, v := range slices.Concat(jsonValues(all), yamlOnly) {
			add(section, v.name, v.fill)
		}
	}
}

// resourceRows are those of files with resources: of each form that they may have.
func resourceRows(t *testing.T, all bool, read func(t *testing.T, directory string)) (rows []row) {
	t.Helper()
	dir := t.TempDir()
	add := func(form, field, pattern string, fill func(size int) []byte) {
		rows = append(rows, row{surface: "files", message: "resources (" + form + ")", field: field, pattern: pattern, send: func(t *testing.T, size int) int {
			t.Helper()
			b := fill(size)
			at := filepath.Join(dir, form)
			if err := os.MkdirAll(at, 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(at, "resources."+form), string(b))
			read(t, at)
			return len(b)
		}})
	}
	d := (&discoveryv3.DiscoveryResponse{}).ProtoReflect().Descriptor()
	for _, p := range fieldsOf(d) {
		if len(p) > 2 && !all {
			continue // they are read as those of a control plane are
		}
		for _, fill := range patternsFor(p.leaf(), all) {
			add("pb", p.String(), fill.name, func(size int) []byte { return p.message(fill, size) })
		}
	}
	for i := range d.Fields().Len() {
		name := string(d.Fields().Get(i).Name())
		for _, v := range jsonValues(all) {
			add("json", name, v.name, func(size int) []byte { return fmt.Appendf(nil, "{%q: %s}", name, v.fill(size)) })
		}
		for _, v := range slices.Concat(jsonValues(all), yamlOnly) {
			add("yaml", name, v.name, func(size int) []byte { return fmt.Appendf(nil, "%s: %s\n", name, v.fill(size)) })
		}
		for _, v := range jsonValues(all) {
			add("txtpb", name, v.name, func(size int) []byte { return fmt.Appendf(nil, "%s: %s\n", name, v.fill(size)) })
		}
		add("txtpb", name, "many messages", func(size int) []byte { return []byte(strings.Repeat(name+" {}\n", size/(len(name)+4))) })
	}
	return rows
}

// write writes a file.
func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
