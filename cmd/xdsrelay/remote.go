package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"xdsrelay/relay/admin"
	"xdsrelay/relay/config"
)

// remote is the admin port of a node that runs, as the flags of a command say.
type remote struct {
	app     *app
	address string
	flag    *pflag.Flag // of the address
	json    bool
	rights  rights
}

// remoteTime is what a node may take for an answer; it asks other nodes for some.
const remoteTime = 15 * time.Second

// addRemote adds the flags to a command that asks a node and prints its answer.
func (a *app) addRemote(cmd *cobra.Command) *remote {
	r := a.addAdmin(cmd)
	cmd.Flags().BoolVar(&r.json, "json", false, "print JSON")
	return r
}

// addAdmin adds the flags that name a node to a command that makes its own of the
// answers.
func (a *app) addAdmin(cmd *cobra.Command) *remote {
	r := &remote{app: a}
	address := cmp.Or(variable(a.env, config.CLIAdmin), config.Default().Admin.Address)
	cmd.Flags().StringVar(&r.address, "admin", address, "the admin port of a running node, as `HOST:PORT` or https://HOST:PORT")
	r.flag = cmd.Flags().Lookup("admin")
	r.rights.add(cmd, a.env)
	return r
}

// named is what the address comes from: the flag, or the variable where that is not given.
func (r *remote) named() string {
	if !r.flag.Changed && variable(r.app.env, config.CLIAdmin) != "" {
		return config.CLIAdmin
	}
	return "--admin"
}

// get asks for JSON and reads it. An error is also what the node has to say about a
// request that it takes for wrong.
func (r *remote) get(ctx context.Context, path string, query url.Values, into any) (code int, err error) {
	asking := *r
	asking.json = true
	code, text, err := asking.ask(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return code, err
	}
	var wrong struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal([]byte(text), &wrong); err != nil {
		return code, fmt.Errorf("the answer of %s cannot be read: %s", r.address, firstLine(errors.New(text)))
	}
	if wrong.Error != "" {
		return code, errors.New(wrong.Error)
	}
	return code, json.Unmarshal([]byte(text), into)
}

// print asks and prints the answer, or returns why there is none.
func (r *remote) print(ctx context.Context, method, path string, query url.Values, body []byte) error {
	text, err := r.order(ctx, method, path, query, body)
	fmt.Fprint(r.app.stdout, text)
	return err
}

// order returns the answer, or why there is none.
func (r *remote) order(ctx context.Context, method, path string, query url.Values, body []byte) (text string, err error) {
	code, text, err := r.ask(ctx, method, path, query, body)
	if err == nil && code >= http.StatusBadRequest {
		return "", errors.New(strings.TrimSpace(text))
	}
	return text, err
}

// errNobody is returned where no node answers.
var errNobody = errors.New("no node answers")

// ask asks the node. What it answers is made safe for a terminal.
func (r *remote) ask(ctx context.Context, method, path string, query url.Values, body []byte) (code int, text string, err error) {
	at, err := baseURL(r.named(), r.address)
	if err != nil {
		return 0, "", err
	}
	at.Path, at.RawQuery = path, query.Encode()
	ctx, cancel := context.WithTimeout(ctx, remoteTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return 0, "", usageError{fmt.Errorf("%s: %w", r.named(), err)}
	}
	req.Header.Set(admin.RequestHeader, "1")
	if r.json {
		req.Header.Set("Accept", "application/json")
	}
	client, err := r.rights.prepare(req, r.app.dial)
	if err != nil {
		return 0, "", err
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, "", r.unreached(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, "", fmt.Errorf("the answer of %s breaks off: %w", r.address, err)
	}
	if at.Scheme == "http" && res.StatusCode == http.StatusBadRequest && strings.HasPrefix(string(answer), "Client sent an HTTP request to an HTTPS server") {
		return 0, "", fmt.Errorf("what listens at %s speaks TLS: expected --admin https://%s", r.address, at.Host)
	}
	if res.StatusCode == http.StatusUnauthorized {
		return 0, "", fmt.Errorf("the node at %s asks for a token, and got none that it takes: --admin-token-file names a file with one", r.address)
	}
	if res.StatusCode == http.StatusNotFound && strings.HasPrefix(string(answer), "404 page not found") || res.StatusCode == http.StatusMethodNotAllowed {
		return 0, "", fmt.Errorf("what listens at %s does not know %s: it is no xdsrelay, or one of another version", r.address, path)
	}
	if r.json {
		return res.StatusCode, string(printableJSON(answer)), nil
	}
	return res.StatusCode, printableLines(string(answer)), nil
}

// unreached says in words why there was no answer, and what may help.
func (r *remote) unreached(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w at %s: connection refused. Is one running here, and is this its admin port (admin.address)? --admin names another", errNobody, r.address)
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return fmt.Errorf("what listens at %s does not use TLS: expected --admin without https://", r.address)
	case strings.Contains(err.Error(), "remote error: tls: certificate required"): // said before or after the request was written
		return fmt.Errorf("%w at %s: %w, of an authority that it trusts (admin.tls.ca_file): --admin-cert and --admin-key name it", errNobody, r.address, err)
	case strings.Contains(err.Error(), "remote error: tls: "):
		return fmt.Errorf("%w at %s: %w", errNobody, r.address, err)
	case strings.Contains(err.Error(), "signed by unknown authority"):
		return fmt.Errorf("%w at %s: %w; --admin-ca names a file with the authorities of its certificate", errNobody, r.address, err)
	case strings.Contains(err.Error(), "malformed HTTP"), strings.Contains(err.Error(), "readLoopPeekFail"): // the latter of a server that speaks first
		return fmt.Errorf("what listens at %s is not the admin port of a node: it does not speak HTTP", r.address)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("%w at %s: the connection was closed without an answer. Is this the admin port (admin.address), and not another one? --admin names another", errNobody, r.address)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w at %s within %s", errNobody, r.address, remoteTime)
	}
	return fmt.Errorf("%w at %s: %w", errNobody, r.address, err)
}
