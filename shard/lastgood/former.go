package lastgood

import (
	"encoding/json"
	"slices"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/redact"
)

// formerURL is what former contents have instead of a type URL.
const formerURL = "former"

// SealFormer returns what clients of a key had before a revision as it may be stored: under the same conditions
// as records.
func (k *Keeper) SealFormer(key string, f *cache.Former) ([]byte, error) {
	if k.cfg.Keys == nil {
		var reader redact.Redactor
		switch {
		case slices.ContainsFunc(f.Types(), k.mustEncrypt):
			return nil, errUnencrypted
		case slices.ContainsFunc(f.Resources(), reader.Holds):
			return nil, errHoldsSecrets
		}
	}
	text, err := json.Marshal(f.Share())
	if err != nil {
		return nil, err
	}
	return k.sealer.seal(key, formerURL, text)
}

// OpenFormer is the reverse of SealFormer, on any node of the tier.
func (k *Keeper) OpenFormer(key string, sealed []byte) (*cache.Former, error) {
	url, text, err := k.sealer.open(key, sealed)
	switch {
	case err != nil:
		return nil, err
	case url != formerURL:
		return nil, errForeign
	}
	var shared []cache.SharedFormer
	if err := json.Unmarshal(text, &shared); err != nil {
		return nil, err
	}
	return cache.ReceiveFormer(shared)
}
