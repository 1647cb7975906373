package relay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"xdsrelay/relay/config"
	"xdsrelay/relay/events"
	"xdsrelay/relay/ops"
)

// Source is where a node's configuration comes from, so that it can be read again
// while the node runs.
type Source struct {
	// File is looked at every now and then; empty where there is none.
	File string
	// Load reads and checks the whole configuration.
	Load func() (*config.Config, error)
	// Signals has a value whenever it is to be read again; nil for never.
	Signals <-chan os.Signal
}

// settings keeps what may change of a node's configuration in step with where that
// comes from. A configuration with a mistake changes nothing.
type settings struct {
	// Fixed after construction.
	source  Source
	first   *config.Config // what the node was started with
	seen    os.FileInfo    // how the file was then
	outcome metric.Int64Counter

	mu sync.Mutex
	// Guarded by mu.
	current *config.Config // what was put into force last
	state   ops.Settings
	loaded  time.Time // when the configuration was last found valid, changed or not
}

func newSettings(cfg *config.Config, source Source, meter metric.Meter) (*settings, error) {
	// Making a node may take a while, in which the file may change.
	s := &settings{source: source, seen: lookAt(source.File), first: cfg, current: cfg, state: ops.Settings{File: source.File, Loaded: time.Now()}, loaded: time.Now()}
	var err error
	if s.outcome, err = meter.Int64Counter("xdsrelay.config.reloads", metric.WithDescription(
		"Reloads of the configuration: applied, unchanged, or rejected (the configuration is invalid).")); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	successful, err := meter.Int64ObservableGauge("xdsrelay.config.last_reload_successful", metric.WithDescription("1 if the last load of the configuration succeeded, 0 if it was invalid and the node keeps the previous one."))
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	loaded, err := meter.Float64ObservableGauge("xdsrelay.config.last_reload_success_timestamp", metric.WithUnit("s"), metric.WithDescription("Unix time of the last successful load of the configuration, changed or not."))
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	restart, err := meter.Int64ObservableGauge("xdsrelay.config.restart_required_fields", metric.WithDescription("Changed configuration fields that take effect only after a restart."))
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s.mu.Lock()
		state, at := s.state, s.loaded
		s.mu.Unlock()
		good := int64(1)
		if state.Rejected != "" {
			good = 0
		}
		o.ObserveInt64(successful, good)
		o.ObserveFloat64(loaded, timestamp(at))
		o.ObserveInt64(restart, int64(len(state.Restart)))
		return nil
	}, successful, loaded, restart)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return s, nil
}

// State tells what became of the configuration.
func (s *settings) State() ops.Settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// inForce is the configuration that the node goes by.
func (s *settings) inForce() *config.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// drain is how the node stops now.
func (s *settings) drain() config.Drain {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.Drain
}

// A change prepares to put a configuration into force, in which nothing differs that
// only a restart changes, and returns what does. All are prepared before the first one is done, which cannot fail.
type change func(*config.Config) (do func(), err error)

// changes are all that may change of a node while it runs: each for the fields whose
// tags say so.
func (n *Node) changes() []change {
	return []change{n.changeRules, n.changePolicies, n.changeLimits, n.changeIntervals, n.changeLevels}
}

// changeRules takes new rules. Streams keep the key that they have; those that are
// not allowed any more end. The caller holds the settings' mu.
func (n *Node) changeRules(cfg *config.Config) (func(), error) {
	rules, policy, err := n.compileRules(cfg)
	otherKeys := !reflect.DeepEqual(n.settings.current.Aggregation.Rules, cfg.Aggregation.Rules)
	return func() {
		n.rules.Store(rules)
		n.policy.Store(policy)
		if otherKeys {
			n.fanout.RulesChanged()
		} else {
			n.fanout.Recheck()
		}
	}, err
}

// changeLimits takes new limits.
func (n *Node) changeLimits(cfg *config.Config) (func(), error) {
	l := limitsOf(cfg)
	return func() { n.limits.Set(l) }, nil
}

// changeIntervals takes new minimum intervals. Changes that wait are sent.
func (n *Node) changeIntervals(cfg *config.Config) (func(), error) {
	intervals := cfg.Downstream.MinIntervals()
	return func() { n.pool.SetIntervals(intervals) }, nil
}

func (n *Node) changeLevels(cfg *config.Config) (func(), error) {
	return func() {
		if n.levels != nil {
			n.levels.Set(cfg.Log.Level.Level(), cfg.Log.Own())
		}
	}, nil
}

// errNoSource is returned by Reload where the configuration is the caller's own.
var errNoSource = errors.New("this node has no source from which it can reload its configuration")

// Reload reads the configuration again and puts into force what of it may change
// while the node runs. No stream ends by it. Where there is a mistake nothing
// changes, and the error says what is wrong.
func (n *Node) Reload() (ops.Settings, error) {
	s := n.settings
	if s.source.Load == nil {
		return s.State(), errNoSource
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := n.reloadLocked()
	if err != nil {
		if s.state.Rejected == "" {
			s.state.RejectedAt = time.Now()
		}
		about := []any{"error", err}
		if s.state.Rejected != err.Error() { // else it was read again
			about = append(about, events.Key, events.ConfigRejected)
		}
		s.state.Rejected = err.Error()
		s.outcome.Add(context.Background(), 1, metric.WithAttributes(attribute.String("outcome", "rejected")))
		n.log.Error("configuration rejected; the previous one stays active", about...)
	}
	return s.state, err
}

// reloadLocked is Reload with the settings' mu held.
func (n *Node) reloadLocked() error {
	s := n.settings
	read, err := s.source.Load()
	if err != nil {
		return err
	}
	cfg := config.Running(s.first, read)
	_, restart := config.Changes(s.first, read)
	if slices.ContainsFunc(restart, saysWhoClientsAre) && !slices.Equal(s.current.Authorization.Policy(), read.Authorization.Policy()) {
		cfg.Authorization.Rules, cfg.Authorization.AllowAny = s.current.Authorization.Rules, s.current.Authorization.AllowAny
		restart = append(restart, "authorization.rules")
	}
	live, _ := config.Changes(s.current, cfg)
	var steps []func()
	for _, prepare := range n.changes() {
		do, err := prepare(cfg)
		if err != nil {
			return err
		}
		steps = append(steps, do)
	}
	s.loaded = time.Now()
	waiting := strings.Join(restart, ",") != strings.Join(s.state.Restart, ",")
	s.state.Rejected, s.state.RejectedAt, s.state.Restart = "", time.Time{}, restart
	if waiting && len(restart) > 0 {
		n.log.Warn("configuration fields changed that require a restart", events.Key, events.ConfigRestartRequired, "fields", restart)
	}
	if len(live) == 0 {
		s.outcome.Add(context.Background(), 1, metric.WithAttributes(attribute.String("outcome", "unchanged")))
		return nil
	}
	for _, do := range steps {
		do()
	}
	s.current, s.state.Loaded = cfg, time.Now()
	s.outcome.Add(context.Background(), 1, metric.WithAttributes(attribute.String("outcome", "applied")))
	n.log.Info("configuration changed", events.Key, events.ConfigApplied, "fields", live)
	return nil
}

// saysWhoClientsAre reports whether a field of the configuration is one by which ports
// identify their clients. The rules of authorization are written for the ports of the
// same file: on other ports they could allow every client, or none. So both take effect
// together, with a restart.
func saysWhoClientsAre(field string) bool {
	return field == "listeners" || strings.HasPrefix(field, "listener.tls.") || strings.HasPrefix(field, "rest.tls.")
}

// Settings tells what became of the node's configuration.
func (n *Node) Settings() ops.Settings { return n.settings.State() }
