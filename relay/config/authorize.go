package config

import (
	"errors"
	"reflect"
	"strconv"
	"time"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/authorize"
	"xdsrelay/relay/yamlpos"
)

// Recheck says when clients that have been let in are looked at again.
type Recheck struct {
	// How often each stream is looked at, give or take a quarter: whether authorize
	// still allows its client what it said it is, and whether its certificate is still
	// good. What changes by configuration or by a new trust bundle is seen at once,
	// and so is the end of a certificate. At least 1s; 0s means only then.
	Interval time.Duration `yaml:"interval" range:"0s|1s.."`
	// Keeps streams whose client's certificate has expired, or is no longer trusted,
	// for as long as they last: for clients that renew certificates late and cannot be
	// changed. New streams are refused in any case.
	KeepUntrusted bool `yaml:"keep_untrusted"`
}

func defaultRecheck() Recheck { return Recheck{Interval: 5 * time.Minute} }

var authorizeType = reflect.TypeFor[[]authorize.Rule]()

// anyWord stands for the list that lets in every client.
const anyWord = "any"

// decodeWord takes the word that stands for a whole list.
func decodeWord(n *yamlpos.Value, v reflect.Value) bool {
	if v.Type() != authorizeType || n.Kind != yamlpos.Text || n.Text != anyWord {
		return false
	}
	v.Set(reflect.ValueOf(authorize.Any()))
	return true
}

// checkAuthorize compiles the rules and puts each mistake where it is in the file.
func (d *decoder) checkAuthorize(cfg *Config) {
	_, err := authorize.Compile(cfg.Authorize)
	for _, err := range flatten(err) {
		var mistake *aggregation.CompileError
		if !errors.As(err, &mistake) {
			d.wrong("authorize", "%v", err)
			continue
		}
		d.misruled("authorize["+strconv.Itoa(mistake.Index)+"]."+mistake.Field, mistake)
	}
	if port := cfg.verifyingPort(); port != "" && len(cfg.Authorize) == 0 {
		d.wrong("authorize", "is missing, but %s asks clients for certificates: without rules each of them could say that it is any other. "+
			`Expected rules such as [{name: own, match: 'peer.spiffe_id == "spiffe://corp/" + node.cluster'}], or the word any if every client with a good certificate may have everything`, port)
	}
}

// verifyingPort is the section of a port that asks clients for certificates; empty if
// none does.
func (c *Config) verifyingPort() string {
	for i, l := range c.AllListeners() {
		switch {
		case !l.TLS.AsksClients():
		case i == 0:
			return "listen.tls"
		default:
			return "listeners[" + strconv.Itoa(i-1) + "].tls"
		}
	}
	if c.REST.Address != "" && c.REST.TLS.AsksClients() {
		return "rest.tls"
	}
	return ""
}
