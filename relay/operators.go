package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"xdsrelay/fanout/limit"
	"xdsrelay/fanout/rejection"
	"xdsrelay/relay/admin"
	"xdsrelay/relay/logs"
	"xdsrelay/relay/secure"
)

// buildAdmin makes the server for operators and binds its port.
func (n *Node) buildAdmin() error {
	cfg := n.cfg.Admin
	if cfg.Address == "" {
		return nil
	}
	access, err := n.adminAccess()
	if err != nil {
		return err
	}
	secured, err := n.secureServer("admin", cfg.TLS)
	if err != nil {
		return fmt.Errorf("admin.tls: %w", err)
	}
	if secured != nil {
		access.StillTrusted = secure.StillTrusted
	}
	server := admin.NewServer(admin.Handler(admin.Config{
		Title:   "xdsrelay " + n.version + " on " + n.name,
		Ready:   n.Ready,
		Keys:    n.cache.GroupInfos,
		Streams: n.everyStream,
		Origins: n.origins.describe,
		Check:   n.Check,
		Tier:    n.tierAdmin(),
		Metrics: n.metrics.Registry(),
		Access:  access,
		Log:     n.log, TraceURL: n.cfg.Telemetry.TraceURL,
		Levels: n.levels, Settings: n.Settings, Reload: n.Reload,

		ClientStatus: n.status,
	}), n.log)
	if secured != nil {
		shake, err := newHandshakes(n.metrics.Meter(), n.part(logs.Security))
		if err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
		server.ConnContext, server.ConnState = secured.Keep, shake.closed(adminListener)
	}
	if n.admin, err = n.listenAt("admin.address", cfg.Address); err != nil {
		return err
	}
	n.admin = n.limits.ListenOperators(n.admin)
	if secured != nil {
		n.admin = tls.NewListener(n.admin, secured.Config("http/1.1"))
	}
	n.add(part{
		serve: func() error {
			if err := server.Serve(n.admin); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("admin port %s: %w", n.AdminAddr(), err)
			}
			return nil
		},
		watch: n.keepSamples,
		stop: func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second) // for requests that are being answered
			defer cancel()
			if server.Shutdown(ctx) != nil {
				_ = server.Close()
			}
			_ = n.admin.Close() // the server has closed it if it ever served
		},
	})
	return nil
}

// adminAccess says who may use the admin port.
func (n *Node) adminAccess() (a admin.Access, err error) {
	cfg := n.cfg.Admin
	a = admin.Access{Hosts: cfg.Hosts, AnyHost: cfg.TLS.On() && len(cfg.Hosts) == 0}
	for _, t := range []struct {
		field, file string
		into        **secure.Token
	}{{"token_file", cfg.TokenFile, &a.Token}, {"read_token_file", cfg.ReadTokenFile, &a.ReadToken}, {"rollout_token_file", cfg.RolloutTokenFile, &a.RolloutToken}} {
		if t.file == "" {
			continue
		}
		if *t.into, err = secure.NewToken(t.file, n.log); err != nil {
			return a, fmt.Errorf("admin.%s: %w", t.field, err)
		}
	}
	rejections, err := rejection.New(n.metrics.Meter())
	if err != nil {
		return a, fmt.Errorf("metrics: %w", err)
	}
	var lines limit.Lines
	a.Refused = func(r *http.Request, reason admin.Reason, why string) {
		rejections.Add(rejection.Admin, string(reason))
		if more, due := lines.Next(time.Now(), logPause); due {
			n.log.Warn("admin request rejected", "peer", r.RemoteAddr, "method", r.Method, "path", r.URL.Path, "reason", why, "more_since_last", more)
		}
	}
	return a, nil
}

// AdminAddr is the address of the admin port, with the real port; empty if off.
func (n *Node) AdminAddr() string {
	if n.admin == nil {
		return ""
	}
	return n.admin.Addr().String()
}
