package config

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestRanges holds that each range is checked at its bounds, in the sections and in the items of
// lists.
func TestRanges(t *testing.T) {
	cfg := Default()
	cfg.Upstreams = []NamedUpstream{{Upstream: DefaultUpstream()}}
	found := 0
	var walk func(v reflect.Value, path string)
	walk = func(v reflect.Value, path string) {
		if v.Kind() == reflect.Slice && path == "upstreams" {
			v, path = v.Index(0), "upstreams[0]"
		}
		if v.Kind() != reflect.Struct {
			return
		}
		for _, f := range fieldsOf(v.Type()) {
			field, at := v.FieldByIndex(f.Index), join(path, yamlName(f))
			walk(field, at)
			span := f.Tag.Get("range")
			if span == "" {
				continue
			}
			found++
			before := reflect.ValueOf(field.Interface())
			span = span[strings.Index(span, "|")+1:]
			least, most, _ := strings.Cut(span, "..")
			for bound, beyond := range map[string]int64{least: -1, most: 1} {
				if bound == "" {
					continue
				}
				if err := setText(field, bound); err != nil {
					t.Fatalf("%s: %q: %v", at, bound, err)
				}
				if p := rangeProblems(cfg); len(p) != 0 {
					t.Errorf("%s is %s: %v", at, bound, p)
				}
				if field.CanFloat() {
					field.SetFloat(field.Float() + float64(beyond)/100)
				} else {
					field.SetInt(field.Int() + beyond)
				}
				if p := rangeProblems(cfg); len(p) != 1 || p[0].Field != at {
					t.Errorf("%s is %v: %v, expected one problem with it", at, field.Interface(), p)
				}
			}
			field.Set(before)
		}
	}
	walk(reflect.ValueOf(cfg).Elem(), "")
	if found < 70 {
		t.Errorf("found %d ranges, expected at least 70", found)
	}
}

func rangeProblems(cfg *Config) []Problem {
	d := &decoder{places: make(map[string]place)}
	d.checkRanges(reflect.ValueOf(*cfg), "")
	return d.problems
}

// TestRangesWithoutOrigin holds that values of an origin that is not used are not looked at.
func TestRangesWithoutOrigin(t *testing.T) {
	file := []byte("upstreams: [{name: main, addresses: ['a:1'], keepalive_interval: 1s}, {name: a, addresses: ['a:1'], types: [Secret], keepalive_interval: 1s}]\n")
	if _, err := Load(Input{File: "f", Data: file, WithoutUpstream: true}); err != nil {
		t.Error(err)
	}
	if _, err := Load(Input{File: "f", Data: file}); err == nil || strings.Count(err.Error(), "keepalive_interval: is 1s, expected 0s or at least 10s") != 2 {
		t.Errorf("got %v, expected a mistake for each keepalive", err)
	}
}

// TestOutside holds what a message says of each form of a range.
func TestOutside(t *testing.T) {
	for _, tc := range []struct {
		value      any
		span, want string
	}{
		{5, "", ""},
		{0, "0..", ""},
		{-1, "0..", "at least 0"},
		{9, "0|10..95", "0 or 10 to 95"},
		{0, "0|10..95", ""},
		{time.Second, "0s|1m..", "0s or at least 1m"},
		{time.Second, "1m..1h", "1m to 1h"},
		{Size(1), "1KiB..1GiB", "a size from 1KiB to 1GiB"},
		{0.95, "0..0.9", "a number from 0 to 0.9"},
		{math.NaN(), "0..0.9", "a number from 0 to 0.9"},
	} {
		if got := outside(reflect.ValueOf(tc.value), tc.span); got != tc.want {
			t.Errorf("%v in %q: %q, expected %q", tc.value, tc.span, got, tc.want)
		}
	}
}

// TestSchemaRanges holds that the schema has the ranges of numbers.
func TestSchemaRanges(t *testing.T) {
	type bounds struct {
		Minimum, Maximum, Const *float64
		AnyOf                   []bounds
	}
	var schema struct {
		Properties map[string]struct{ Properties map[string]bounds }
	}
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"limits.max_names_per_stream":    "1.. ",
		"downstream.ack_timeout":         "",
		"removal_guard.max_percent":      "0..100 ",
		"limits.max_memory_percent":      "=0 10..95 ",
		"limits.max_types_per_stream":    "1..64 ",
		"tier.owner_timeout":             "",
		"telemetry.client_spans":         "0..16 ",
		"limits.max_requests_per_second": "0.. ",
	} {
		section, field, _ := strings.Cut(path, ".")
		got := ""
		is, there := schema.Properties[section].Properties[field]
		for _, b := range append([]bounds{is}, is.AnyOf...) {
			if b.Const != nil {
				got += fmt.Sprintf("=%v ", *b.Const)
			}
			if b.Minimum != nil {
				got += fmt.Sprintf("%v..", *b.Minimum)
				if b.Maximum != nil {
					got += fmt.Sprint(*b.Maximum)
				}
				got += " "
			}
		}
		if !there || got != want {
			t.Errorf("%s: %q, expected %q", path, got, want)
		}
	}
}
