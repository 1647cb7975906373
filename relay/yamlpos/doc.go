// Package yamlpos reads a file of YAML into values that have their positions. It rejects files
// that cost the parser far more than their size, expands aliases and merge keys within bounds, and
// writes values as JSON whose lines lead back to the file:
//
//   - bounds.go: what is rejected before the parser runs
//   - read.go, value.go: from the syntax tree of the parser to values
//   - json.go: from values to JSON
package yamlpos
