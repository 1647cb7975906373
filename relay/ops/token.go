package ops

import (
	"encoding/base64"
	"encoding/json"
)

// token writes what a later question needs, in a form that fits into a URL.
func token(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "" // cannot be: these are texts
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

func readToken(text string, into any) error {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}
