package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"xdsrelay/relay/bootstrap"
)

// Help texts of flags that several commands share: one name has one meaning.
const (
	configUsage   = "configuration `FILE`; environment variables and flags override it"
	typeUsage     = "only this `TYPE`, such as CDS"
	nodeUsage     = "only what this `NODE` of the tier has"
	waitUsage     = "wait until the"
	timeoutUsage  = "maximum time to wait"
	watchUsage    = "update the output until interrupted"
	forUsage      = "stop after this time with a summary; 0 means at an interrupt"
	nodeFileUsage = "`FILE` with the client's Node or its bootstrap, as JSON or YAML"
	variantUsage  = "xDS `VARIANT`: delta or sotw"
	intervalUsage = "time between two updates of the output"
)

// addNode adds the flags that describe a client.
func addNode(flags *pflag.FlagSet, id, cluster, region, zone, subZone *string) {
	flags.StringVar(id, "node-id", *id, "`ID` of the client, unique for each client")
	flags.StringVar(cluster, "node-cluster", "", "cluster `NAME` of the client, from which the default rule computes the aggregation key")
	flags.StringVar(region, "region", "", "`REGION` of the client")
	flags.StringVar(zone, "zone", "", "`ZONE` of the client")
	flags.StringVar(subZone, "sub-zone", "", "`SUBZONE` of the client")
}

// addTLS adds the flags for the TLS of a client; the names begin with prefix.
func addTLS(flags *pflag.FlagSet, prefix, of string, t *bootstrap.TLS) {
	flags.BoolVar(&t.On, prefix+"tls", false, "use TLS"+of+", and verify the server with the CA certificates of the client's system or of --"+prefix+"ca")
	flags.StringVar(&t.CAFile, prefix+"ca", "", "`FILE` of the client with the CA certificates that verify the server"+of+"; enables TLS")
	flags.StringVar(&t.CertFile, prefix+"cert", "", "`FILE` of the client with its certificate"+of+"; enables TLS")
	flags.StringVar(&t.KeyFile, prefix+"cert-key", "", "`FILE` of the client with the private key of its certificate"+of+"; enables TLS")
}

// addServerName adds the flag for the name in certificates.
func addServerName(flags *pflag.FlagSet, prefix, of string, t *bootstrap.TLS) {
	flags.StringVar(&t.ServerName, prefix+"server-name", "", "`NAME` in the certificate of the server"+of+" (default: the host of its address)")
}

// checkVariant returns an error about --variant.
func checkVariant(variant string) error {
	if variant != "sotw" && variant != "delta" {
		return usageError{fmt.Errorf("--variant: got %q, expected delta or sotw", variant)}
	}
	return nil
}

// minInterval is the shortest time between two requests to a node.
const minInterval = 100 * time.Millisecond

// checkInterval returns an error about --interval.
func checkInterval(every time.Duration) error {
	if every < minInterval {
		return usageError{fmt.Errorf("--interval: got %s, expected at least %s", every, minInterval)}
	}
	return nil
}

// checkTimeout returns an error about --timeout.
func checkTimeout(timeout time.Duration) error {
	if timeout < 0 {
		return usageError{fmt.Errorf("--timeout: got %s, expected at least 0", timeout)}
	}
	return nil
}
