package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"xdsrelay/relay/resource"
)

// intervalRange bounds a minimum interval: removals wait for other types for at most 5s, so
// no type may be later than that.
const intervalRange = "0s|10ms..5s"

// MinIntervals returns the minimum intervals of types, by type URL. A short name means the
// type in either version of the protocol.
func (d *Downstream) MinIntervals() map[string]time.Duration {
	byType := make(map[string]time.Duration, len(d.MinInterval))
	for _, text := range d.MinInterval {
		name, interval, err := typeInterval(text)
		if err != nil || interval == 0 {
			continue // Load rejects a mistake
		}
		if t := resource.TypeNamed(name); t != nil {
			byType[t.URL] = interval
		}
		for _, t := range resource.KnownV2() {
			if t.ShortName() == name {
				byType[t.URL] = interval
			}
		}
	}
	return byType
}

// typeInterval reads an interval of a type, written as Type=duration. The error says what was
// expected.
func typeInterval(text string) (name string, d time.Duration, err error) {
	i := strings.LastIndexByte(text, '=')
	if i < 0 {
		return "", 0, fmt.Errorf("got %q, expected Type=duration, like ClusterLoadAssignment=200ms", shorten(text))
	}
	name = text[:i]
	if err := setText(reflect.ValueOf(&d).Elem(), text[i+1:]); err != nil {
		return name, 0, fmt.Errorf("got %q for %s, %w", shorten(text[i+1:]), shorten(name), err)
	}
	if expected := outside(reflect.ValueOf(d), intervalRange); expected != "" {
		return name, 0, fmt.Errorf("is %v for %s, expected %s", d, shorten(name), expected)
	}
	return name, d, nil
}

func (d *decoder) checkIntervals(path string, texts []string) {
	var seen []string
	for i, text := range texts {
		at := fmt.Sprintf("%s[%d]", path, i)
		d.placeItem(at, path)
		name, _, err := typeInterval(text)
		if err != nil {
			d.wrong(at, "%v", err)
		}
		if name == "" {
			continue
		}
		if t := d.typeNamed(at, name); t != nil && slices.Contains(seen, t.URL) {
			d.wrong(at, "lists %s twice", shorten(name))
		} else if t != nil {
			seen = append(seen, t.URL)
		}
	}
}
