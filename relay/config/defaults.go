package config

import _ "embed"

// defaultYAML is made from the structs of this package, their comments and
// [Default] by `go test ./relay/config -update`; a test holds that it is up to
// date.
//
//go:embed default.yaml
var defaultYAML string

// DefaultYAML is a configuration file with all fields, their comments and their
// defaults.
func DefaultYAML() string { return defaultYAML }

//go:embed minimal.yaml
var minimalYAML string

// MinimalYAML is a configuration file with the fields that most users set.
func MinimalYAML() string { return minimalYAML }
