package ops

// Entries of docs/operate/runbook.md that several kinds of warnings need.
const (
	runbookDown    = "XDSRelayDown"
	runbookRedis   = "XDSRelayRedisDown"
	runbookClock   = "XDSRelayClockSkew"
	runbookAllKeys = "XDSRelayAllKeysDisconnected"
)

// runbook is the entry about each kind of warnings. Those of kind node have one each, or none.
var runbook = map[string]string{
	AboutSilence:  runbookDown,
	AboutClients:  "XDSRelayNacks",
	aboutOrigin:   "XDSRelayKeysDisconnected",
	"config":      "XDSRelayConfigRejected",
	"differs":     "XDSRelayConfigMismatch",
	"certificate": "XDSRelayCertificateExpires",
	"files":       "XDSRelayInvalidFiles",
	"stale":       "XDSRelayUnconfirmed",
	"held":        "XDSRelayRemovalsHeld",
	"redis":       runbookRedis,
	"last_good":   "XDSRelayLastKnownGoodFailing",
	"empty":       runbookAllKeys,
}

// withRunbook sets the entries of warnings that have none yet.
func withRunbook(all []Warning) []Warning {
	for i := range all {
		w := &all[i]
		if w.Runbook == "" && (w.Kind != "config" || w.Level == levelError) { // a restart is no alert
			w.Runbook = runbook[w.Kind]
		}
	}
	return all
}
