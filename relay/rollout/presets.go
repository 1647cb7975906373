package rollout

import (
	"cmp"
	"slices"
	"time"

	"xdsrelay/relay/resource"
)

// TypeNames are the names of types in policies, and their URLs.
var TypeNames = map[string]string{
	"LDS": resource.ListenerURL, "RDS": resource.RouteURL, "SRDS": resource.ScopedRouteURL, "CDS": resource.ClusterURL,
	"ECDS": resource.ExtensionURL, "RTDS": resource.RuntimeURL, "SDS": resource.SecretURL,
	"EDS": resource.EndpointURL, "LEDS": resource.LbEndpointURL, "VHDS": resource.VirtualHostURL,
}

// URLOf returns the URL of the type with a name in a policy: one of [TypeNames], or a name as in the
// rest of the configuration, such as Cluster. Other names are URLs.
func URLOf(name string) string {
	if url := TypeNames[name]; url != "" {
		return url
	}
	if t := resource.TypeNamed(name); t != nil {
		return t.URL
	}
	return name
}

// defaultTypes are the types that a policy gates unless it lists others.
var defaultTypes = []string{"LDS", "SRDS", "RDS", "CDS", "ECDS", "RTDS"}

// SoftwareVersion is the CEL text by which scouts are chosen by default: the name and the version of
// the client's software. Envoy has a build version, and gRPC a text.
const SoftwareVersion = `node.user_agent_name + "/" + (has(node.user_agent_build_version) ? ` +
	`string(node.user_agent_build_version.version.major_number) + "." + string(node.user_agent_build_version.version.minor_number) + "." + ` +
	`string(node.user_agent_build_version.version.patch) : node.user_agent_version)`

// Names of the policies that exist without being configured.
const (
	Quick    = "quick"
	Standard = "standard"
	Careful  = "careful"
)

// Presets returns the policies that exist without being configured.
func Presets() []*Policy {
	quick, standard, careful := defaults(Quick), defaults(Standard), defaults(Careful)
	quick.Steps = []Step{{Share: 0.01, Bake: 30 * time.Second}}
	quick.Final = 2 * time.Minute
	careful.Steps = []Step{
		{Share: 0.01, Bake: 5 * time.Minute},
		{Share: 0.1, Bake: 15 * time.Minute, Approve: true},
		{Share: 0.5, Bake: 15 * time.Minute},
	}
	careful.Final, careful.Longest = 30*time.Minute, 24*time.Hour
	return []*Policy{quick, standard, careful}
}

// Preset returns the preset with a name; nil if there is none.
func Preset(name string) *Policy {
	all := Presets()
	if i := slices.IndexFunc(all, func(p *Policy) bool { return p.Name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// defaults is the policy whose values hold where a configured one has none: that of standard.
func defaults(name string) *Policy {
	return &Policy{
		Name: name, Mode: Automatic, Types: slices.Clone(defaultTypes),
		Settle: Settle{Quiet: 250 * time.Millisecond, Max: 2 * time.Second},
		Scouts: ScoutsOf{By: SoftwareVersion, Most: 5},
		Steps: []Step{
			{Share: 0.01, Bake: 2 * time.Minute}, {Share: 0.1, Bake: 5 * time.Minute}, {Share: 0.5, Bake: 5 * time.Minute},
		},
		Final:    10 * time.Minute,
		Canaries: Canaries{Spread: "node.locality.zone", Small: 20},
		FailIf: FailIf{
			NACKs: 1, Unanswered: Unanswered{Clients: 1, Within: 10 * time.Second},
			Lost: Lost{Clients: 2, TimesControl: 3}, Errors: Errors{AboveControl: 0.01, Requests: 500},
		},
		OnFail: RollBack, Newer: Restart, Longest: 2 * time.Hour,
		Upstream: Upstream{Answer: AfterScouts, Within: 900 * time.Millisecond, LateNACK: true},
	}
}

// WithDefaults returns the policy with the values of standard where it has none. The name, the mode
// and everything that is set are kept.
func (p Policy) WithDefaults() *Policy {
	d := defaults(p.Name)
	p.Mode = cmp.Or(p.Mode, d.Mode)
	if p.Types == nil {
		p.Types = d.Types
	}
	if p.Steps == nil {
		p.Steps = d.Steps
	}
	p.Settle = Settle{cmp.Or(p.Settle.Quiet, d.Settle.Quiet), cmp.Or(p.Settle.Max, d.Settle.Max)}
	p.Scouts = ScoutsOf{cmp.Or(p.Scouts.By, d.Scouts.By), cmp.Or(p.Scouts.Most, d.Scouts.Most)}
	p.Final, p.Longest = cmp.Or(p.Final, d.Final), cmp.Or(p.Longest, d.Longest)
	p.Canaries.Spread = cmp.Or(p.Canaries.Spread, d.Canaries.Spread)
	p.Canaries.Small = cmp.Or(p.Canaries.Small, d.Canaries.Small)
	if p.FailIf == (FailIf{}) {
		p.FailIf = d.FailIf
	}
	p.OnFail, p.Newer = cmp.Or(p.OnFail, d.OnFail), cmp.Or(p.Newer, d.Newer)
	if p.Upstream == (Upstream{}) {
		p.Upstream = d.Upstream
	}
	p.Checks = slices.Clone(p.Checks)
	for i := range p.Checks {
		c := &p.Checks[i]
		c.Timeout, c.Every = cmp.Or(c.Timeout, 10*time.Second), cmp.Or(c.Every, 30*time.Second)
		c.NoData = cmp.Or(c.NoData, WaitForData)
	}
	return &p
}
