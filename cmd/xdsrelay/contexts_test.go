package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// withContexts writes a file with contexts, and returns the environment of a user who has it.
func withContexts(t *testing.T, text string) (env []string, path string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "xdsrelay", "config.yaml")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"XDG_CONFIG_HOME=" + dir, "HOME=/nowhere"}, path
}

const twoContexts = `# tiers
contexts:
  - name: production
    admin: https://relay.example:19000
    ca_file: ca.pem
    token_file: /run/token
  - {name: local, admin: "127.0.0.1:1"}
`

// TestWhichNode: which admin port a command connects to, and with which files, by flags, environment
// and contexts. A token of the environment is not sent to the address of a context.
func TestWhichNode(t *testing.T) {
	env, path := withContexts(t, "current_context: production\n"+twoContexts)
	ca := filepath.Join(filepath.Dir(path), "ca.pem")
	set := append([]string{"XDSRELAY_CLI_ADMIN=127.0.0.1:1234", "XDSRELAY_CLI_ADMIN_TOKEN_FILE=/env-token"}, env...)
	for _, tc := range []struct {
		name, args       string
		env              []string
		admin, ca, token string
	}{
		{"nothing", "", nil, "127.0.0.1:19000", "", ""},
		{"variables of the node", "", []string{"XDSRELAY_ADMIN_ADDRESS=0.0.0.0:19001", "XDSRELAY_ADMIN_TOKEN_FILE=/tokens"}, "127.0.0.1:19000", "", ""},
		{"current context", "", env, "https://relay.example:19000", ca, "/run/token"},
		{"variables before the current context", "", set, "127.0.0.1:1234", "", "/env-token"},
		{"a context before variables", "--context production", set, "https://relay.example:19000", ca, "/run/token"},
		{"a context without a token", "--context local", set, "127.0.0.1:1", "", ""},
		{"an address before all", "--admin 127.0.0.1:2", set, "127.0.0.1:2", "", "/env-token"},
		{"an address without variables", "--admin 127.0.0.1:2", env, "127.0.0.1:2", "", ""},
		{"fields of a context", "--context production --admin-ca /ca --admin-token-file /token", env, "https://relay.example:19000", "/ca", "/token"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := &app{env: tc.env}
			cmd := a.newVersionCmd()
			r := a.addAdmin(cmd)
			if err := cmd.ParseFlags(strings.Fields(tc.args)); err != nil {
				t.Fatal(err)
			}
			got, err := r.target()
			if err != nil || got.Admin != tc.admin || got.CAFile != tc.ca || got.TokenFile != tc.token {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// TestContexts: list and use, and that the rest of the file stays.
func TestContexts(t *testing.T) {
	env, path := withContexts(t, twoContexts)
	call := func(line string) (code int, stdout, stderr string) {
		var out, errs bytes.Buffer
		code = run(t.Context(), strings.Split(line, " "), env, &out, &errs)
		return code, out.String(), errs.String()
	}
	expect := func(line string, wantCode int, want string) {
		t.Helper()
		if code, stdout, stderr := call(line); code != wantCode || !strings.Contains(stdout+stderr, want) {
			t.Errorf("%s: exit code %d, expected %d and %q:\n%s%s", line, code, wantCode, want, stdout, stderr)
		}
	}
	expect("context list -o name", exitOK, "production\nlocal\n")
	expect("context use local", exitOK, "switched to context \"local\"\n")
	expect("context list", exitOK, "*        local       127.0.0.1:1\n")
	expect("context use production", exitOK, "switched to context \"production\"\n")
	expect("context list -o json", exitOK, `"ca_file": "`+filepath.Join(filepath.Dir(path), "ca.pem"))
	expect("context use none", exitUsage, "context \"none\" does not exist in "+path+"; 'xdsrelay context list' lists the contexts")
	expect("context use", exitUsage, "expected one NAME")
	expect("nodes --context none", exitUsage, "context \"none\" does not exist")
	expect("nodes --context local", exitError, "no node answers at 127.0.0.1:1")
	expect("nodes --context local --admin 127.0.0.1:2", exitUsage, "none of the others can be")
	expect("__complete nodes --context p", exitOK, "production")
	expect("__complete context use ", exitOK, "local")
	if text, err := os.ReadFile(path); err != nil || string(text) != "current_context: production\n"+twoContexts {
		t.Errorf("%v, the file is\n%s", err, text)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 1 {
		t.Errorf("left over: %v", left)
	}
}

// TestWrongContexts: errors in the file name it, and commands that do not need it work.
func TestWrongContexts(t *testing.T) {
	for text, want := range map[string]string{
		"contexts: [{name: a, admin: 'x'}]":                            "contexts[0].admin: got \"x\", expected host:port",
		"contexts: [{admin: '127.0.0.1:1'}]":                           "contexts[0].name is missing",
		"contexts: [{name: a, admin: 'h:1'}, {name: a, admin: 'h:1'}]": "\"a\" is used twice",
		"contexts: [{name: a, admin: 'h:1', token: x}]":                "token",
		"current_context: b\ncontexts: [{name: a, admin: 'h:1'}]":      "context \"b\" does not exist",
		"contexts: [": "config.yaml: ",
		"contexts: [{name: a, admin: 'h:1'}]\n#" + strings.Repeat("x", maxContexts): "has more than",
	} {
		env, _ := withContexts(t, text)
		var out, errs bytes.Buffer
		if code := run(t.Context(), []string{"nodes"}, env, &out, &errs); code != exitUsage || !strings.Contains(errs.String(), want) {
			t.Errorf("exit code %d, expected %q: %s", code, want, errs.String())
		}
		errs.Reset()
		if code := run(t.Context(), []string{"nodes", "--admin", "127.0.0.1:1"}, env, &out, &errs); code != exitError {
			t.Errorf("with an address: exit code %d: %s", code, errs.String())
		}
	}
	env, _ := withContexts(t, "")
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"context", "list"}, env, &out, &errs); code != exitOK || !strings.Contains(out.String(), "no contexts") {
		t.Errorf("an empty file: exit code %d: %s%s", code, &out, &errs)
	}
}
