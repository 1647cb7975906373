package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"xdsrelay/relay/admin"
	"xdsrelay/relay/csds"
	"xdsrelay/relay/fielddiff"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/rollouts"
	"xdsrelay/relay/series"
)

// openAPIPage describes the JSON API for programs, and apiReference for people. deploy/verify holds that
// the golden answers have its schemas.
const (
	openAPIPage  = "../../docs/reference/openapi.yaml"
	apiReference = "../../docs/reference/api.md"
)

// apiTypes are the Go types of the answers, by the names of their schemas.
var apiTypes = map[string]reflect.Type{
	"Summary": reflect.TypeFor[ops.Summary](), "TypeSummary": reflect.TypeFor[ops.TypeSum](), "NodeSummary": reflect.TypeFor[ops.Sums](),
	"Rejection": reflect.TypeFor[ops.Rejection](), "SilentNode": reflect.TypeFor[ops.Silent](),
	"ClientPage": reflect.TypeFor[ops.Page](), "Client": reflect.TypeFor[ops.Client](), "ClientType": reflect.TypeFor[ops.Type](), "ClientRollout": typeOfField[ops.Client]("Rollout"),
	"Nack": reflect.TypeFor[ops.Nack](), "ClientResource": reflect.TypeFor[ops.Resource](), "FoundClients": reflect.TypeFor[ops.Found](),
	"KeyPage": reflect.TypeFor[ops.Keys](), "Key": reflect.TypeFor[ops.Key](), "NodeKey": reflect.TypeFor[ops.NodeKey](),
	"ClientDiffs": reflect.TypeFor[ops.Diff](), "ClientDiff": reflect.TypeFor[ops.ClientDiff](), "TypeDiff": reflect.TypeFor[ops.TypeDiff](),
	"Difference": reflect.TypeFor[ops.Difference](),
	"History":    reflect.TypeFor[ops.History](), "NodeHistory": reflect.TypeFor[ops.NodeHistory](), "TypeHistory": reflect.TypeFor[ops.TypeHistory](),
	"PastUpdate": typeOfField[ops.TypeHistory]("Versions"), "Dump": reflect.TypeFor[ops.Dump](), "DumpedResource": reflect.TypeFor[ops.Dumped](),
	"Rejections": reflect.TypeFor[ops.Rejections](), "RejectionReason": reflect.TypeFor[ops.Reason](), "RejectionCount": reflect.TypeFor[ops.ReasonCount](),
	"RejectedResource": reflect.TypeFor[ops.ReasonResource](),
	"ResourceClients":  reflect.TypeFor[ops.Who](), "WhoResource": reflect.TypeFor[ops.WhoResource](), "WhoVersion": reflect.TypeFor[ops.WhoVersion](),
	"WhoCopy": reflect.TypeFor[ops.WhoCopy](), "WhoClient": reflect.TypeFor[ops.WhoClient](),
	"Comparison": reflect.TypeFor[ops.Comparison](), "ComparedSide": reflect.TypeFor[ops.Side](), "ComparedType": reflect.TypeFor[ops.ComparedType](),
	"ComparedResource": reflect.TypeFor[ops.Compared](), "HeldResource": reflect.TypeFor[ops.Held](),
	"ResourceFields": reflect.TypeFor[fielddiff.Diff](),
	"Changes":        reflect.TypeFor[ops.Changes](), "TypeChanges": reflect.TypeFor[ops.TypeChanges](), "ResourceDiff": reflect.TypeFor[ops.ResourceDiff](),
	"FieldDiff": reflect.TypeFor[fielddiff.Field](), "Arrival": reflect.TypeFor[ops.Arrival](), "ArrivalType": reflect.TypeFor[ops.ArrivalType](),
	"ArrivalClient": reflect.TypeFor[ops.ArrivalClient](), "ArrivalNode": reflect.TypeFor[ops.ArrivalNode](),
	"Live": reflect.TypeFor[ops.Live](), "LiveNode": reflect.TypeFor[ops.LiveNode](), "KeySummary": reflect.TypeFor[ops.KeySums](),
	"Traffic": reflect.TypeFor[series.Totals](), "ConfigStatus": reflect.TypeFor[ops.Settings](), "RedisState": typeOfField[ops.LiveNode]("Redis"),
	"Update": reflect.TypeFor[ops.Update](), "NodeUpdate": reflect.TypeFor[ops.NodeReached](), "Propagation": reflect.TypeFor[series.Took](),
	"Upstream": reflect.TypeFor[ops.OriginInfo](), "Warning": reflect.TypeFor[ops.Warning](), "Series": reflect.TypeFor[admin.Series](),
	"Rollout": reflect.TypeFor[ops.Rollout](), "RolloutKey": reflect.TypeFor[ops.RolloutKey](), "RolloutPending": reflect.TypeFor[ops.RolloutPending](),
	"RolloutHistory": reflect.TypeFor[ops.RolloutHistory](), "RolloutRevision": reflect.TypeFor[ops.RolloutRevision](), "RolloutType": reflect.TypeFor[ops.RolloutType](),
	"RolloutDiff": reflect.TypeFor[ops.RolloutDiff](), "RolloutTypeDiff": reflect.TypeFor[ops.RolloutTypeDiff](), "RolloutOrder": reflect.TypeFor[ops.RolloutOrdered](),
	"RolloutProgress": reflect.TypeFor[ops.RolloutProgress](), "RolloutDecision": typeOfField[ops.RolloutProgress]("History"), "RolloutRejection": typeOfField[ops.RolloutProgress]("Rejections"), "RolloutUnwell": typeOfField[ops.RolloutProgress]("Lost"),
	"RolloutObserved": reflect.TypeFor[rollouts.Observed](), "RolloutBudget": reflect.TypeFor[ops.RolloutBudget](), "RolloutArm": reflect.TypeFor[ops.RolloutArm](),
	"RolloutPlan": reflect.TypeFor[ops.RolloutPlan](), "RolloutPlanStep": typeOfField[ops.RolloutPlan]("Steps"),
	"Freeze": typeOfField[ops.RolloutKey]("Freeze"), "Undone": typeOfField[ops.RolloutKey]("Undone"), "Refused": reflect.TypeFor[ops.RolloutRefused](),
	"Drain": reflect.TypeFor[admin.Draining](), "ApprovedRemovals": reflect.TypeFor[admin.Released](), "Reconnect": reflect.TypeFor[ops.Reconnecting](),
	"ReconnectingNode": reflect.TypeFor[ops.ReconnectingNode](), "ClientOrder": reflect.TypeFor[ops.Ordered](), "OrderedClient": reflect.TypeFor[ops.OrderedClient](),
	"ClientEvents": reflect.TypeFor[ops.ClientEvents](), "ClientEvent": reflect.TypeFor[ops.ClientEvent](),
	"LogLevels": reflect.TypeFor[map[string]string](), "Error": reflect.TypeFor[struct {
		Error string `json:"error"`
	}](),
	"Events": reflect.TypeFor[ops.Events](), "Event": reflect.TypeFor[ops.Event](), "EventSubject": typeOfStruct[ops.Event]("Subject"),
	"LostEvents": reflect.TypeFor[ops.LostEvents](), "OmittedEvents": reflect.TypeFor[ops.OmittedEvents](),
	"Candidate": reflect.TypeFor[ops.Candidate](), "CandidateRule": reflect.TypeFor[ops.CandidateRule](), "CandidateAccess": reflect.TypeFor[ops.CandidateAccess](),
	"CandidateLimits": reflect.TypeFor[ops.CandidateLimits](), "Effects": reflect.TypeFor[ops.Would](), "KeyMove": reflect.TypeFor[ops.Move](),
	"EffectGroup": reflect.TypeFor[ops.WouldRefuse](), "ExceededLimit": reflect.TypeFor[ops.LimitHit](), "ChangedField": reflect.TypeFor[ops.FieldChange](),
	"AppliedRules": reflect.TypeFor[ops.Applied](), "FormerRules": reflect.TypeFor[ops.Former](),
	"State": reflect.TypeFor[ops.State](), "Cause": typeOfField[ops.Update]("Cause"),
}

// typeOfField is the type of a field, or of its elements: packages below relay are not imported here.
func typeOfField[T any](name string) reflect.Type {
	f, ok := reflect.TypeFor[T]().FieldByName(name)
	if !ok {
		panic("no field " + name)
	}
	if f.Type.Kind() == reflect.String {
		return f.Type
	}
	return f.Type.Elem()
}

// typeOfStruct is the type of a field that is a struct.
func typeOfStruct[T any](name string) reflect.Type {
	f, _ := reflect.TypeFor[T]().FieldByName(name)
	return f.Type
}

// causeForm finds the constants of the causes.
var causeForm = regexp.MustCompile(`(?m)^\tCause\w+ +Cause = "(\w+)"`)

// apiValues are the values of the types that have few.
func apiValues(t *testing.T) map[string][]any {
	t.Helper()
	all := map[string][]any{"State": {ops.Synced, ops.Stale, ops.Nacked, ops.NotSent, ops.Unknown}}
	all["FormerRules"] = []any{ops.FormerKeyChanges, ops.FormerRefused, ops.FormerUnknown, ops.FormerKeyStays, ops.FormerUnchecked}
	text, err := os.ReadFile("../../relay/cache/history.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range causeForm.FindAllStringSubmatch(string(text), -1) {
		all["Cause"] = append(all["Cause"], m[1])
	}
	if len(all["State"]) != len(ops.States()) || len(all["Cause"]) < 6 {
		t.Fatalf("the values are %v: has the form changed?", all)
	}
	return all
}

// withoutOpenAPI are requests with POST that are no commands.
var withoutOpenAPI = []string{csds.Path, "/tier/explain"}

// TestOpenAPI: docs/reference/openapi.yaml has all endpoints of the JSON API and all commands, with their
// parameters, the schemas of their answers, and a sample of each. docs/reference/api.md has the same as tables.
func TestOpenAPI(t *testing.T) {
	text, err := os.ReadFile("testdata/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(text, &doc, yaml.UseOrderedMap(), yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	a := &apiPage{t: t, fields: at(doc, "fields"), used: make(map[string]bool)}
	doc = slices.DeleteFunc(doc, func(i yaml.MapItem) bool { return i.Key == "fields" })
	for _, path := range at(doc, "paths") {
		for _, method := range path.Value.(yaml.MapSlice) {
			a.finish(strings.ToUpper(method.Key.(string)), method.Value.(yaml.MapSlice))
		}
	}
	checkAPIEndpoints(t, at(doc, "paths"), at(doc, "components", "parameters"))
	for i := range doc {
		if doc[i].Key == "components" {
			doc[i].Value = append(doc[i].Value.(yaml.MapSlice), yaml.MapItem{Key: "schemas", Value: a.schemas()})
		}
	}
	a.checkFields()
	out, err := yaml.MarshalWithOptions(doc, yaml.UseLiteralStyleIfMultiline(true), yaml.IndentSequence(true))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(out), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	golden(t, openAPIPage, "# Written by go test ./cmd/xdsrelay -update, from cmd/xdsrelay/testdata/openapi.yaml and the Go types.\n"+strings.Join(lines, "\n"))

	introduction, err := os.ReadFile("testdata/api.md")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, apiReference, string(introduction)+describeAPI(doc))
}

// checkAPIEndpoints holds that the page has the endpoints of the API and their parameters, and no others.
func checkAPIEndpoints(t *testing.T, paths, shared yaml.MapSlice) {
	t.Helper()
	endpoints := make(map[string][]string)
	for _, e := range admin.Endpoints() {
		command := e.Method == http.MethodPost && !slices.Contains(withoutOpenAPI, e.Path)
		if !command && !strings.HasPrefix(e.Path, "/api/v1/") {
			continue
		}
		params := slices.DeleteFunc(slices.Clone(e.Params), func(name string) bool { return name == "format" && !command })
		endpoints[e.Method+" "+e.Path] = slices.Sorted(slices.Values(params))
	}
	described := make(map[string][]string)
	for _, path := range paths {
		for _, method := range path.Value.(yaml.MapSlice) {
			names := []string{}
			params, _ := get(method.Value.(yaml.MapSlice), "parameters").([]any)
			for _, p := range params {
				one := p.(yaml.MapSlice)
				if ref, ok := get(one, "$ref").(string); ok {
					one = at(shared, strings.TrimPrefix(ref, "#/components/parameters/"))
				}
				if get(one, "in") == "query" {
					names = append(names, get(one, "name").(string))
				}
			}
			described[strings.ToUpper(method.Key.(string))+" "+path.Key.(string)] = slices.Sorted(slices.Values(names))
		}
	}
	for _, e := range slices.Sorted(maps.Keys(endpoints)) {
		if got, ok := described[e]; !ok {
			t.Errorf("testdata/openapi.yaml has no %s", e)
		} else if !slices.Equal(got, endpoints[e]) {
			t.Errorf("testdata/openapi.yaml: %s has the parameters %q, expected %q", e, got, endpoints[e])
		}
		delete(described, e)
	}
	for e := range described {
		t.Errorf("testdata/openapi.yaml has %s, which is no endpoint", e)
	}
}

// apiPage adds what a person does not write to the page.
type apiPage struct {
	t      *testing.T
	fields yaml.MapSlice   // descriptions, by schema and field
	used   map[string]bool // those that have a field, as schema.field
}

// finish replaces the schema and the sample of each answer by its content, and adds the answers that
// all endpoints have.
func (a *apiPage) finish(method string, operation yaml.MapSlice) {
	a.t.Helper()
	for i := range operation {
		if operation[i].Key != "responses" {
			continue
		}
		responses := operation[i].Value.(yaml.MapSlice)
		for j := range responses {
			answer := responses[j].Value.(yaml.MapSlice)
			schema, _ := get(answer, "schema").(string)
			sample, _ := get(answer, "sample").(string)
			content := yaml.MapSlice{}
			if schema != "" {
				media := yaml.MapSlice{{Key: "schema", Value: reference(schema)}}
				if sample != "" {
					media = append(media, yaml.MapItem{Key: "example", Value: a.sample(method, sample, responses[j].Key.(string))})
				}
				content = append(content, yaml.MapItem{Key: "application/json", Value: media})
			}
			if get(answer, "text") == true {
				content = append(content, yaml.MapItem{Key: "text/plain", Value: yaml.MapSlice{{Key: "schema", Value: yaml.MapSlice{{Key: "type", Value: "string"}}}}})
			}
			if len(content) > 0 {
				responses[j].Value = yaml.MapSlice{{Key: "description", Value: get(answer, "description")}, {Key: "content", Value: content}}
			}
		}
		responses = append(
			responses,
			yaml.MapItem{Key: "401", Value: yaml.MapSlice{{Key: "$ref", Value: "#/components/responses/Unauthorized"}}},
			yaml.MapItem{Key: "403", Value: yaml.MapSlice{{Key: "$ref", Value: "#/components/responses/Forbidden"}}},
		)
		operation[i].Value = responses
	}
}

// sample returns the golden answer to a request, with short lists.
func (a *apiPage) sample(method, path, code string) any {
	a.t.Helper()
	file := filepath.Join("testdata", "golden", "tier", goldenFile("admin_", question{method, path, ""}.endpoint()))
	text, err := os.ReadFile(file)
	if err != nil {
		a.t.Fatal(err)
	}
	asked := regexp.MustCompile("(?m)^" + regexp.QuoteMeta(fmt.Sprintf("=== %s %s ", method, path)) + ".*\n" + code + " application/json\n\n").FindIndex(text)
	if asked == nil {
		a.t.Fatalf("%s has no JSON for %s %s with the code %s", file, method, path, code)
	}
	answer, _, _ := strings.Cut(string(text[asked[1]:]), "\n\n")
	var v any
	if err := yaml.UnmarshalWithOptions([]byte(answer), &v, yaml.UseOrderedMap()); err != nil {
		a.t.Fatalf("%s: %v", file, err)
	}
	return shortened(v)
}

// shortened returns v with two entries of each list.
func shortened(v any) any {
	switch v := v.(type) {
	case []any:
		v = v[:min(len(v), 2)]
		for i := range v {
			v[i] = shortened(v[i])
		}
		return v
	case yaml.MapSlice:
		for i := range v {
			v[i].Value = shortened(v[i].Value)
		}
	}
	return v
}

// schemas are those of all types.
func (a *apiPage) schemas() (all yaml.MapSlice) {
	a.t.Helper()
	values := apiValues(a.t)
	for _, name := range slices.Sorted(maps.Keys(apiTypes)) {
		description, _ := a.describe(name, "").(string)
		if description == "" {
			a.t.Errorf("testdata/openapi.yaml does not describe the schema %s", name)
		}
		schema := yaml.MapSlice{{Key: "description", Value: description}}
		of := apiTypes[name]
		switch {
		case values[name] != nil:
			schema = append(schema, yaml.MapItem{Key: "type", Value: "string"}, yaml.MapItem{Key: "enum", Value: values[name]})
		case of.Kind() == reflect.Map:
			schema = append(schema, a.typeOf(of, false)...)
		default:
			var properties yaml.MapSlice
			var required []string
			a.properties(name, of, &properties, &required)
			schema = append(schema, yaml.MapItem{Key: "type", Value: "object"})
			if len(required) > 0 {
				schema = append(schema, yaml.MapItem{Key: "required", Value: required})
			}
			schema = append(schema, yaml.MapItem{Key: "properties", Value: properties})
		}
		all = append(all, yaml.MapItem{Key: name, Value: schema})
	}
	return all
}

// properties adds the fields of a struct, and those of the structs that are embedded in it.
func (a *apiPage) properties(schema string, of reflect.Type, properties *yaml.MapSlice, required *[]string) {
	for f := range of.Fields() {
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case f.Anonymous && tag == "":
			a.properties(schema, f.Type, properties, required)
			continue
		case name == "-" || !f.IsExported():
			continue
		}
		optional := strings.Contains(options, "omit")
		if !optional {
			*required = append(*required, name)
		}
		one := a.typeOf(f.Type, !optional)
		switch d := a.describe(schema, name).(type) {
		case string:
			one = append(yaml.MapSlice{{Key: "description", Value: d}}, one...)
		case yaml.MapSlice:
			one = append(slices.Clone(d), one...)
		default:
			a.t.Errorf("testdata/openapi.yaml does not describe the field %s of %s", name, schema)
		}
		*properties = append(*properties, yaml.MapItem{Key: name, Value: one})
	}
}

// describe returns what the page says of a field, or of the schema itself.
func (a *apiPage) describe(schema, field string) any {
	for _, name := range []string{schema, "common"} {
		of, _ := get(a.fields, name).(yaml.MapSlice)
		if d := get(of, field); d != nil {
			a.used[name+"."+field] = true
			return d
		}
	}
	return nil
}

// checkFields holds that the page describes only fields that exist.
func (a *apiPage) checkFields() {
	for _, schema := range a.fields {
		for _, field := range schema.Value.(yaml.MapSlice) {
			if name := fmt.Sprintf("%s.%s", schema.Key, field.Key); !a.used[name] {
				a.t.Errorf("testdata/openapi.yaml describes %s, which does not exist", name)
			}
		}
	}
}

// typeOf is the schema of a Go type. A list or a map that is always there may be null.
func (a *apiPage) typeOf(of reflect.Type, always bool) yaml.MapSlice {
	for name, t := range apiTypes {
		if t == of && of.Kind() != reflect.Map {
			return reference(name)
		}
	}
	typed := func(name string, nullable bool, more ...yaml.MapItem) yaml.MapSlice {
		var v any = name
		if nullable {
			v = []string{name, "null"}
		}
		return append(yaml.MapSlice{{Key: "type", Value: v}}, more...)
	}
	switch {
	case of == reflect.TypeFor[time.Time]():
		return typed("string", false, yaml.MapItem{Key: "format", Value: "date-time"})
	case of == reflect.TypeFor[json.RawMessage]():
		return typed("object", false)
	}
	switch of.Kind() {
	case reflect.Pointer:
		if of.Elem().Kind() == reflect.Struct {
			return a.typeOf(of.Elem(), always)
		}
		one := a.typeOf(of.Elem(), always)
		return typed(one[0].Value.(string), true, one[1:]...)
	case reflect.Slice:
		return typed("array", always, yaml.MapItem{Key: "items", Value: a.typeOf(of.Elem(), false)})
	case reflect.Map:
		return typed("object", always,
			yaml.MapItem{Key: "propertyNames", Value: a.typeOf(of.Key(), false)},
			yaml.MapItem{Key: "additionalProperties", Value: a.typeOf(of.Elem(), false)})
	case reflect.Bool:
		return typed("boolean", false)
	case reflect.String:
		return typed("string", false)
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint32, reflect.Uint64:
		return typed("integer", false)
	case reflect.Float64:
		return typed("number", false)
	}
	a.t.Errorf("the API has a field of the type %v: describe it in TestOpenAPI", of)
	return nil
}

func reference(schema string) yaml.MapSlice {
	return yaml.MapSlice{{Key: "$ref", Value: "#/components/schemas/" + schema}}
}

// get returns the value of a key, nil for none.
func get(m yaml.MapSlice, key string) any {
	if i := slices.IndexFunc(m, func(i yaml.MapItem) bool { return i.Key == key }); i >= 0 {
		return m[i].Value
	}
	return nil
}

// at returns the map at a path of keys.
func at(m yaml.MapSlice, keys ...string) yaml.MapSlice {
	for _, key := range keys {
		m, _ = get(m, key).(yaml.MapSlice)
	}
	return m
}
