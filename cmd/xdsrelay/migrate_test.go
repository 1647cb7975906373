package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMigrate: what is written is a configuration that check takes, what is different
// is told beside it, and mistakes are told with their places and exit code 2.
func TestMigrate(t *testing.T) {
	const examples = "../../relay/migrate/testdata/"
	migrate := func(files ...string) (code int, out, told string) {
		var stdout, stderr strings.Builder
		code = run(context.Background(), append([]string{"migrate"}, files...), nil, &stdout, &stderr)
		return code, stdout.String(), stderr.String()
	}
	code, out, told := migrate(examples+"bootstrap.yaml", examples+"rules.yaml")
	if code != exitOK || !strings.Contains(told, "rules.yaml:1:1: xds-relay showed the control plane the Node of one client") {
		t.Errorf("exit code %d, told\n%s", code, told)
	}
	file := filepath.Join(t.TempDir(), "relay.yaml")
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	if code := run(context.Background(), []string{"config", "validate", "-c", file}, nil, &strings.Builder{}, &stderr); code != exitOK {
		t.Errorf("check: exit code %d\n%s", code, &stderr)
	}
	if code, out, _ := migrate(examples + "camel.yaml"); code != exitOK || !strings.Contains(out, "node.metadata.team") {
		t.Errorf("rules alone: exit code %d\n%s", code, out)
	}

	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	if err := os.WriteFile(wrong, []byte("fragments:\n- rulez: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, told := migrate(wrong); code != exitUsage || out != "" || !strings.Contains(told, wrong+":2:3: unknown field rulez") {
		t.Errorf("exit code %d, %q, %q", code, out, told)
	}
	// An expression that is too long for a rule is not the user's mistake, but an end.
	long := strings.Repeat("x", 4000)
	text := "fragments: [{rules: [{match: {any_match: true}, result: {request_node_fragment: {id_action: {regex_action: {pattern: '" + long + long + "'}}}}}]}]"
	if err := os.WriteFile(wrong, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, told := migrate(wrong); code != exitError || out != "" || !strings.Contains(told, "no equivalent configuration") {
		t.Errorf("exit code %d, %q, %q", code, out, told)
	}
}
