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

	"xdsrelay/relay/admin"
	"xdsrelay/relay/config"
)

// remote is the admin port of a running node, as the flags of a command name it.
type remote struct {
	app   *app
	cmd   *cobra.Command
	flags target // as given; address and files may be empty
	use   string // the context
	found *target
}

// target is an admin port and what a command needs to connect to it.
type target struct {
	tierContext

	named string // the flag or variable that the address comes from
}

// remoteTime limits how long a node may take to answer; it asks other nodes for some answers.
const remoteTime = 15 * time.Second

// addAdmin adds the flags that name a running node to a command.
func (a *app) addAdmin(cmd *cobra.Command) *remote {
	r := &remote{app: a, cmd: cmd}
	flags := cmd.Flags()
	if flags.Lookup("admin") == nil { // config validate has it for another purpose, too
		flags.String("admin", config.Default().Admin.Address, "address of a node's admin port, as `HOST:PORT` or https://HOST:PORT")
	}
	r.flags.Admin = config.Default().Admin.Address
	flags.StringVar(&r.use, "context", "", "`NAME` of the context to use; see 'xdsrelay context'")
	flags.StringVar(&r.flags.TokenFile, "admin-token-file", "", "`FILE` with the token for the admin port")
	flags.StringVar(&r.flags.CAFile, "admin-ca", "", "`FILE` with the CA certificates that verify the admin port (default: those of the system)")
	flags.StringVar(&r.flags.CertFile, "admin-cert", "", "`FILE` with the client certificate for the admin port")
	flags.StringVar(&r.flags.KeyFile, "admin-key", "", "`FILE` with the private key of the client certificate")
	cmd.MarkFlagsMutuallyExclusive("admin", "context")
	_ = cmd.RegisterFlagCompletionFunc("context", a.completeContexts) // the flag is defined
	return r
}

// target finds out which admin port to use. A context is used as a whole: the token of the
// environment belongs to an address that is not the context's.
func (r *remote) target() (*target, error) {
	if r.found != nil {
		return r.found, nil
	}
	t, err := r.choose()
	if err != nil {
		return nil, err
	}
	for _, of := range []struct {
		flag  string
		value string
		into  *string
	}{
		{"admin-token-file", r.flags.TokenFile, &t.TokenFile}, {"admin-ca", r.flags.CAFile, &t.CAFile},
		{"admin-cert", r.flags.CertFile, &t.CertFile}, {"admin-key", r.flags.KeyFile, &t.KeyFile},
	} {
		if r.cmd.Flags().Changed(of.flag) {
			*of.into = of.value
		}
	}
	r.found = &t
	return r.found, nil
}

// choose is target without the flags that override fields.
func (r *remote) choose() (target, error) {
	env := variable(r.app.env, config.CLIAdmin)
	plain := func(named, address string) target {
		return target{named: named, tierContext: tierContext{Admin: address, TokenFile: variable(r.app.env, config.CLITokenFile)}}
	}
	name := r.use
	switch {
	case r.cmd.Flags().Changed("admin"):
		return plain("--admin", r.cmd.Flags().Lookup("admin").Value.String()), nil
	case r.cmd.Flags().Changed("context"):
	case env != "":
		return plain(config.CLIAdmin, env), nil
	}
	all, err := readContexts(r.app.env)
	if err != nil {
		return target{}, err
	}
	if name = cmp.Or(name, all.Current); name == "" {
		return plain("--admin", r.flags.Admin), nil
	}
	one, err := all.find(name)
	return target{named: "context " + name, tierContext: one}, err
}

// get requests JSON and decodes it. An error that the node reports is an error, too.
func (r *remote) get(ctx context.Context, path string, query url.Values, into any) (code int, err error) {
	_, code, err = r.call(ctx, http.MethodGet, path, query, nil, into)
	return code, err
}

// call is get for all methods, and returns the JSON as well.
func (r *remote) call(ctx context.Context, method, path string, query url.Values, body []byte, into any) (raw json.RawMessage, code int, err error) {
	code, text, err := r.ask(ctx, method, path, query, body, true)
	if err != nil {
		return nil, code, err
	}
	var failed struct {
		Error string `json:"error"`
	}
	err = json.Unmarshal([]byte(text), &failed)
	switch {
	case err != nil && code >= http.StatusBadRequest:
		return nil, code, errors.New(strings.TrimSpace(text))
	case err != nil:
		return nil, code, fmt.Errorf("%s sent an answer that is not JSON: %s", r.found.Admin, firstLine(errors.New(text)))
	case failed.Error != "":
		return nil, code, errors.New(failed.Error)
	}
	return json.RawMessage(text), code, json.Unmarshal([]byte(text), into)
}

// errNobody is returned if no node answers.
var errNobody = errors.New("no node answers")

// ask sends a request to the node and returns the answer, which is safe for a terminal.
func (r *remote) ask(ctx context.Context, method, path string, query url.Values, body []byte, asJSON bool) (code int, text string, err error) {
	t, err := r.target()
	if err != nil {
		return 0, "", err
	}
	at, err := baseURL(t.named, t.Admin)
	if err != nil {
		return 0, "", err
	}
	at.Path, at.RawQuery = path, query.Encode()
	ctx, cancel := context.WithTimeout(ctx, remoteTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return 0, "", usageError{fmt.Errorf("%s: %w", t.named, err)}
	}
	req.Header.Set(admin.RequestHeader, "1")
	if asJSON {
		req.Header.Set("Accept", "application/json")
	}
	client, err := t.prepare(req, r.app.dial)
	if err != nil {
		return 0, "", err
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, "", t.unreached(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, "", fmt.Errorf("the connection to %s failed before the end of the answer: %w", t.Admin, err)
	}
	switch {
	case at.Scheme == "http" && res.StatusCode == http.StatusBadRequest && strings.HasPrefix(string(answer), "Client sent an HTTP request to an HTTPS server"):
		return 0, "", fmt.Errorf("the server at %s uses TLS: use --admin https://%s", t.Admin, at.Host)
	case res.StatusCode == http.StatusUnauthorized:
		return 0, "", fmt.Errorf("the node at %s requires a token and got no valid one: set --admin-token-file", t.Admin)
	case res.StatusCode == http.StatusNotFound && strings.HasPrefix(string(answer), "404 page not found"), res.StatusCode == http.StatusMethodNotAllowed:
		return 0, "", fmt.Errorf("the server at %s does not support %s: it is not xdsrelay, or another version", t.Admin, path)
	case asJSON:
		return res.StatusCode, string(printableJSON(answer)), nil
	}
	return res.StatusCode, printableLines(string(answer)), nil
}

// unreached explains why there was no answer, and what to do.
func (t *target) unreached(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w at %s: connection refused; start a node, or set --admin to the address of its admin port (admin.address)", errNobody, t.Admin)
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return fmt.Errorf("the server at %s does not use TLS: use --admin without https://", t.Admin)
	case strings.Contains(err.Error(), "remote error: tls: certificate required"): // said before or after the request was written
		return fmt.Errorf("%w at %s: %w, signed by a CA of admin.tls.ca_file: set --admin-cert and --admin-key", errNobody, t.Admin, err)
	case strings.Contains(err.Error(), "remote error: tls: "):
		return fmt.Errorf("%w at %s: %w", errNobody, t.Admin, err)
	case strings.Contains(err.Error(), "signed by unknown authority"):
		return fmt.Errorf("%w at %s: %w; set --admin-ca to a file with the CA certificates", errNobody, t.Admin, err)
	case strings.Contains(err.Error(), "malformed HTTP"), strings.Contains(err.Error(), "readLoopPeekFail"): // the latter of a server that speaks first
		return fmt.Errorf("the server at %s is not the admin port of a node: it does not use HTTP", t.Admin)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("%w at %s: the server closed the connection without an answer; set --admin to the address of the admin port (admin.address)", errNobody, t.Admin)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w at %s within %s", errNobody, t.Admin, remoteTime)
	}
	return fmt.Errorf("%w at %s: %w", errNobody, t.Admin, err)
}
