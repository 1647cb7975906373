package config

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// LeastSalt is the minimum length of a salt of [Seals], in bytes.
const LeastSalt = 16

// Seals are digests of all fields of a configuration, by path. A list is one field. With a salt that
// is used once, they say which fields differ from those of another configuration, and nothing about
// the values.
func Seals(cfg *Config, salt []byte) map[string]string {
	all := make(map[string]string)
	eachField(cfg, func(path string, v reflect.Value, _ bool) { all[path] = seal(path, v, salt) })
	return all
}

// ChangedSeals is [Changes] with the seals of the next configuration. A field that only one of the
// two has, as with another version of the program, takes effect with a restart.
func ChangedSeals(old *Config, seals map[string]string, salt []byte) (live, restart []string) {
	known := make(map[string]bool)
	eachField(old, func(path string, v reflect.Value, isLive bool) {
		known[path] = true
		switch {
		case seals[path] == seal(path, v, salt):
		case isLive && seals[path] != "":
			live = append(live, path)
		default:
			restart = append(restart, path)
		}
	})
	first := len(restart)
	for path := range seals {
		if !known[path] {
			restart = append(restart, path)
		}
	}
	slices.Sort(restart[first:])
	return live, restart
}

func seal(path string, v reflect.Value, salt []byte) string {
	text := []byte("[]") // as long as a list has no elements, it does not matter whether it is nil
	if v.Kind() != reflect.Slice || v.Len() > 0 {
		var err error
		if text, err = json.Marshal(v.Interface()); err != nil {
			text = fmt.Appendf(nil, "%#v", v.Interface()) // cannot be: these are texts, numbers and lists
		}
	}
	h := hmac.New(sha256.New, salt)
	fmt.Fprintf(h, "%s\x00%s", path, text)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// eachField calls f for each field of a configuration, in the order of the file.
func eachField(cfg *Config, f func(path string, v reflect.Value, isLive bool)) {
	var walk func(v reflect.Value, path string, mayChange bool)
	walk = func(v reflect.Value, path string, mayChange bool) {
		if v.Kind() == reflect.Struct && !isText(v.Type()) {
			for _, field := range fieldsOf(v.Type()) {
				walk(v.FieldByIndex(field.Index), join(path, yamlName(field)), mayChange || isLive(field))
			}
			return
		}
		f(path, v, mayChange)
	}
	walk(reflect.ValueOf(cfg).Elem(), "", false)
}
