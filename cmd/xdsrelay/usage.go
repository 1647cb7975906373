package main

import (
	"fmt"
	"time"
)

// Help texts of flags that several commands share: one name has one meaning.
const (
	configUsage   = "configuration `FILE`; environment variables and flags override it"
	typeUsage     = "only this `TYPE`, such as CDS"
	nodeUsage     = "only what this `NODE` of the tier has"
	waitUsage     = "wait until the"
	timeoutUsage  = "maximum time to wait with --wait"
	intervalUsage = "time between two updates of the output"
)

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
