package hooks

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"xdsrelay/relay/redact"
	"xdsrelay/relay/rollout"
	"xdsrelay/relay/secure"
)

const (
	// maxAnswer bounds the body of an answer, and maxHeaders its headers, in bytes.
	maxAnswer  = 64 << 10
	maxHeaders = 16 << 10
	// maxText bounds what is shown of an answer, in bytes.
	maxText = 256
	// maxIdle bounds the idle connections to a system.
	maxIdle = lanes
)

// Config configures a [Client].
type Config struct {
	// TLS is how https:// connects.
	TLS secure.Config
	// TokenFiles are the token files of all systems.
	TokenFiles []string
	// Logger logs changes of certificates and tokens. Required.
	Logger *slog.Logger
}

// Client sends requests to other systems. All methods are safe for concurrent use.
type Client struct {
	http   *http.Client
	pool   *http.Transport
	tokens map[string]*secure.Token // by file
}

// New reads the files of a configuration. It fails if one cannot be used.
func New(cfg Config) (*Client, error) {
	side, err := secure.NewClient(cfg.TLS, cfg.Logger)
	if err != nil {
		return nil, err
	}
	c := &Client{tokens: make(map[string]*secure.Token)}
	for _, file := range cfg.TokenFiles {
		if c.tokens[file], err = secure.NewToken(file, cfg.Logger); err != nil {
			return nil, err
		}
	}
	c.pool = &http.Transport{
		DialContext:            (&net.Dialer{}).DialContext,
		DialTLSContext:         side.Dial,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeaders,
		MaxIdleConnsPerHost:    maxIdle,
		IdleConnTimeout:        time.Minute,
	}
	c.http = &http.Client{Transport: c.pool, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return c, nil
}

// Close closes idle connections. Requests on their way are not affected.
func (c *Client) Close() { c.pool.CloseIdleConnections() }

// Ask asks the system of a check.
func (c *Client) Ask(ctx context.Context, q *rollout.Question) rollout.CheckResult {
	ctx, end := context.WithTimeoutCause(ctx, q.Check.Timeout, fmt.Errorf("no answer within %v", q.Check.Timeout))
	defer end()
	is := rollout.CheckResult{Name: q.Check.Name}
	var err error
	if q.Check.Prometheus != "" {
		err = c.askPrometheus(ctx, q, &is)
	} else {
		err = c.askWebhook(ctx, q, &is)
	}
	if err != nil {
		is.Outcome, is.Reply, is.Text = rollout.NotEnough, rollout.Unreachable, shown(ctx, err)
	}
	is.Text = redact.Short(is.Text, maxText)
	return is
}

// request is what is sent.
type request struct {
	url, contentType, tokenFile string
	body                        []byte
}

// post sends a request, and returns the status and the body of the answer.
func (c *Client) post(ctx context.Context, r *request) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, bytes.NewReader(r.body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", r.contentType)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "xdsrelay")
	if token := c.tokens[r.tokenFile]; token != nil {
		req.Header.Set("Authorization", "Bearer "+token.Current())
	}
	res, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return res.StatusCode, nil, err
	case len(answer) > maxAnswer:
		return res.StatusCode, nil, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	return res.StatusCode, answer, nil
}

// refusal is an error for a status of HTTP that is not a success; nil if it is one.
func refusal(status int) error {
	switch {
	case status >= 300 && status < 400:
		return fmt.Errorf("HTTP status %d, a redirect, which is not followed", status)
	case status < 200 || status >= 400:
		return fmt.Errorf("HTTP status %d", status)
	}
	return nil
}

// shown is what may be shown of an error: without URLs, which may hold secrets.
func shown(ctx context.Context, err error) string {
	if cause := context.Cause(ctx); cause != nil {
		return cause.Error()
	}
	if of, ok := errors.AsType[*url.Error](err); ok {
		err = of.Err
	}
	if certificate, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the certificate is not valid: " + certificate.Err.Error()
	}
	return err.Error()
}
