package scenario

import (
	"strconv"
	"time"

	"xdsrelay/bench/certs"
	"xdsrelay/bench/report"
)

// spareFiles are the files that a process needs beside its connections.
const spareFiles = 200

// serverArgs start the origin or the floor of a setup.
func serverArgs(t Target, s report.Setup, secured *certs.Files) []string {
	spec := specOf(s)
	args := []string{
		"--control",
		"--keys", strconv.Itoa(spec.Keys),
		"--resources", strconv.Itoa(spec.Clusters),
		"--listeners", strconv.Itoa(spec.Listeners),
		"--size", strconv.Itoa(spec.Size),
		"--endpoint-size", strconv.Itoa(spec.EndpointSize),
		"--equal=" + strconv.FormatBool(spec.Equal),
		"--open-files", strconv.Itoa(s.Connections() + spareFiles),
	}
	if secured != nil && t.kind == kindFloor {
		args = append(args, "--tls-ca", secured.CA, "--tls-cert", secured.Server, "--tls-key", secured.Key)
	}
	switch t.kind {
	case kindFloor:
		return append([]string{kindFloor, "--sync", "--" + s.Variant}, args...)
	case kindTCP:
		return append([]string{kindFloor, "--tcp", "--sync", "--" + s.Variant}, args...)
	}
	args = append([]string{kindOrigin}, args...)
	if s.ReportEvery > 0 {
		args = append(args, "--load-reports", (time.Duration(s.ReportEvery) * time.Millisecond).String())
	}
	if t.kind == kindOrigin && t.arg != "" {
		args = append(args, "--cache", t.arg)
	}
	return args
}
