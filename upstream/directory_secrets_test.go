package upstream

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// TestDirectoryErrorsQuoteNothing: neither the log nor the errors on the admin port contain
// anything of an invalid file, whatever the error is and wherever a secret is in the file.
func TestDirectoryErrorsQuoteNothing(t *testing.T) {
	const secret = "hunter2"
	const head = "type_url: " + resource.SecretURL + "\nresources:\n- \"@type\": " + resource.SecretURL + "\n"
	binary := encode(t, ".pb", answer("", xdstest.Cluster(secret, time.Second), xdstest.Cluster(secret, time.Second)))
	root := t.TempDir()
	for name, content := range map[string]string{
		"value.yaml":          head + "  name: a\n  tls_certificate: {private_key: " + secret + "}\n",
		"scalar.yaml":         head + "  name: a\n  tls_certificate: " + secret + "\n",
		"duration.yaml":       "resources:\n- \"@type\": " + resource.ClusterURL + "\n  connect_timeout: " + secret + "\n",
		"enum.yaml":           "resources:\n- \"@type\": " + resource.ClusterURL + "\n  type: " + secret + "\n",
		"number.yaml":         "resources:\n- \"@type\": " + resource.ClusterURL + "\n  per_connection_buffer_limit_bytes: " + secret + "\n",
		"field.yaml":          head + "  " + secret + ": a\n",
		"twice.yaml":          secret + ": a\n" + secret + ": b\n",
		"alias.yaml":          "resources: *" + secret + "\n",
		"tag.yaml":            "resources: !" + secret + "\n",
		"colon.yaml":          "resources:\n- a: b: " + secret + "\n",
		"plain.yaml":          secret + "\n",
		"indent.yaml":         "password: a\n  " + secret + ": b\n " + secret + "\n",
		"escape.yaml":         "a: \"\\" + secret + "\"\n",
		"directive.yaml":      "%YAML " + secret + "\n---\na: b\n",
		"header.yaml":         "a: |" + secret + "\n  b\n",
		"float.yaml":          "a: 1e99999" + "\n" + secret + "\n",
		"type.json":           `{"resources":[{"@type":"type.googleapis.com/` + secret + `"}]}`,
		"any.json":            `{"resources":[{"@type":"` + resource.ClusterURL + `","` + secret + `":1}]}`,
		"token.json":          `{"resources": ` + secret + `}`,
		"bytes.json":          `{"resources":[{"@type":"` + resource.SecretURL + `","name":"a","tlsCertificate":{"privateKey":{"inlineBytes":"?` + secret + `"}}}]}`,
		"end.json":            `{"versionInfo": "` + secret,
		"string.json":         `{"versionInfo": 1, "nonce": "` + secret + `\z"}`,
		"url.json":            `{"typeUrl":"` + secret + `","resources":[{"@type":"` + resource.ClusterURL + `","name":"a"}]}`,
		"field.txtpb":         secret + ": 1\n",
		"value.txtpb":         "version_info: " + secret + "\n",
		"text.txtpb":          "{" + secret,
		"string.txtpb":        "version_info: '" + secret + "\\z'\n",
		"type.txtpb":          "resources { [type.googleapis.com/" + secret + "] {} }\n",
		"extension.txtpb":     "[" + secret + "]: 1\n",
		"names.pb":            string(binary),
		"wrong.pb":            secret + "\xff",
		"key/value.yaml":      "a: b: " + secret + "\n",
		"key/with/ignored.md": secret,
	} {
		put(t, filepath.Join(root, name), []byte(content))
	}
	foreign := t.TempDir()
	write(t, filepath.Join(foreign, "shadow"), []byte("root:"+secret+":1:\n"))
	write(t, filepath.Join(foreign, "good.pb"), encode(t, ".pb", answer("", xdstest.Cluster(secret, time.Second))))
	for link, to := range map[string]string{"absolute.yaml": filepath.Join(foreign, "shadow"), "good.pb": filepath.Join(foreign, "good.pb"), "elsewhere": foreign} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	b := serveDir(t, root)
	if err := b.dir.Errors()[filepath.Join(root, "names.pb")]; err == nil || !strings.Contains(err.Error(), "an earlier resource has the same name") {
		t.Errorf("a name twice: %v", err)
	}
	said := b.log.String() + CheckDirectory(root).Error()
	for path, err := range b.dir.Errors() {
		said += path + err.Error()
	}
	for line := range strings.Lines(said) {
		if strings.Contains(strings.ToLower(line), secret) {
			t.Errorf("the secret is in %s", line)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(root, "*.*")); len(b.dir.Errors()) != len(files)+2 { // elsewhere, key/value.yaml
		for _, f := range files {
			if b.dir.Errors()[f] == nil {
				t.Errorf("%s was read without an error", f)
			}
		}
		t.Errorf("%d errors, expected %d", len(b.dir.Errors()), len(files)+2)
	}
}

// TestDirectoryLinks: the relay follows links to files of the directory, also through links that
// are swapped, and no others: the target of such a link is neither served nor quoted.
func TestDirectoryLinks(t *testing.T) {
	foreign, root := t.TempDir(), t.TempDir()
	putResponse(t, filepath.Join(foreign, "cds.yaml"), xdstest.Cluster("foreign", time.Second))
	putResponse(t, filepath.Join(root, "..data", "cds.yaml"), xdstest.Cluster("a", time.Second))
	putResponse(t, filepath.Join(root, ".shared", "cds.yaml"), xdstest.Cluster("b", time.Second))
	out, err := filepath.Rel(root, foreign)
	if err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{
		"1.yaml": "..data/cds.yaml", "2.yaml": out + "/cds.yaml", "3.yaml": filepath.Join(foreign, "cds.yaml"), "own": ".shared", "other": out,
		".up": out, "4.yaml": ".up/cds.yaml",
	} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	b := serveDir(t, root)
	errs := b.dir.Errors()
	for _, link := range []string{"2.yaml", "3.yaml", "4.yaml", "other"} {
		mention(t, errs[filepath.Join(root, link)], link, "points outside the directory")
	}
	if len(errs) != 4 {
		t.Errorf("errors %v, expected those of 4 links", errs)
	}
	v, own := b.view("k", resource.ClusterURL), b.view("own", resource.ClusterURL)
	xdstest.Eventually(t, "the clusters of the directory", func() bool {
		return slices.Equal(v.names(), []string{"a"}) && slices.Equal(own.names(), []string{"b"}) || slices.Equal(own.names(), []string{"a", "b"})
	})
}
