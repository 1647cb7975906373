package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// describeAPI writes requests and schemas as tables.
func describeAPI(doc yaml.MapSlice) string {
	var b strings.Builder
	row := func(cells ...string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	b.WriteString("## Requests\n\n")
	var details strings.Builder
	row("Request", "Purpose")
	b.WriteString("|---|---|\n")
	for _, path := range at(doc, "paths") {
		for _, method := range path.Value.(yaml.MapSlice) {
			heading := strings.ToUpper(method.Key.(string)) + " " + path.Key.(string)
			operation := method.Value.(yaml.MapSlice)
			row("[`"+heading+"`](#"+anchorOf(heading)+")", get(operation, "summary").(string))
			describeRequest(&details, doc, heading, operation)
		}
	}
	b.WriteString(details.String())
	b.WriteString("\n## Schemas\n")
	for _, schema := range at(doc, "components", "schemas") {
		of := schema.Value.(yaml.MapSlice)
		fmt.Fprintf(&b, "\n### %s\n\n%s\n", schema.Key, get(of, "description"))
		properties := at(of, "properties")
		if len(properties) == 0 {
			fmt.Fprintf(&b, "\nType: %s.\n", typeText(of))
			continue
		}
		b.WriteString("\n")
		row("Field", "Type", "Description")
		b.WriteString("|---|---|---|\n")
		required, _ := get(of, "required").([]string)
		for _, p := range properties {
			field := p.Value.(yaml.MapSlice)
			kind := typeText(field)
			if !slices.Contains(required, p.Key.(string)) {
				kind += ", optional"
			}
			row("`"+p.Key.(string)+"`", kind, get(field, "description").(string))
		}
	}
	return b.String()
}

func describeRequest(b *strings.Builder, doc yaml.MapSlice, heading string, operation yaml.MapSlice) {
	fmt.Fprintf(b, "\n### %s\n\n%s\n", heading, get(operation, "summary"))
	if d, ok := get(operation, "description").(string); ok {
		fmt.Fprintf(b, "\n%s\n", d)
	}
	var rows strings.Builder
	params, _ := get(operation, "parameters").([]any)
	for _, p := range params {
		one := p.(yaml.MapSlice)
		if ref, ok := get(one, "$ref").(string); ok {
			one = at(doc, "components", "parameters", strings.TrimPrefix(ref, "#/components/parameters/"))
		}
		if get(one, "in") != "query" {
			continue // the introduction has the header of commands
		}
		kind := typeText(at(one, "schema"))
		if least := get(at(one, "schema"), "minimum"); least != nil {
			kind += fmt.Sprintf(" from %v to %v", least, get(at(one, "schema"), "maximum"))
		}
		if usual := get(at(one, "schema"), "default"); usual != nil {
			kind += fmt.Sprintf(", default %v", usual)
		}
		if get(one, "required") == true {
			kind += ", required"
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", get(one, "name"), kind, get(one, "description"))
	}
	if rows.Len() > 0 {
		fmt.Fprintf(b, "\n| Parameter | Type | Description |\n|---|---|---|\n%s", rows.String())
	}
	b.WriteString("\n| Code | Answer | Content |\n|---|---|---|\n")
	for _, r := range at(operation, "responses") {
		answer := r.Value.(yaml.MapSlice)
		if r.Key == "401" || r.Key == "403" {
			continue // the introduction has those of all requests
		}
		if ref, ok := get(answer, "$ref").(string); ok {
			answer = at(doc, "components", "responses", strings.TrimPrefix(ref, "#/components/responses/"))
		}
		var content []string
		for _, media := range at(answer, "content") {
			if media.Key == "text/plain" {
				content = append(content, "text")
			} else {
				content = append(content, typeText(at(media.Value.(yaml.MapSlice), "schema")))
			}
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", r.Key, get(answer, "description"), cmp.Or(strings.Join(content, " or "), "none"))
	}
}

// typeText is the type of a schema, for people.
func typeText(schema yaml.MapSlice) string {
	if ref, ok := get(schema, "$ref").(string); ok {
		name := strings.TrimPrefix(ref, "#/components/schemas/")
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	}
	kind, _ := get(schema, "type").(string)
	all, nullable := get(schema, "type").([]string)
	if nullable {
		kind = all[0]
	}
	switch {
	case get(schema, "enum") != nil:
		var values []string
		for _, v := range get(schema, "enum").([]any) {
			values = append(values, fmt.Sprintf("`%v`", v))
		}
		return strings.Join(values, ", ")
	case get(schema, "format") == "date-time":
		return "time"
	case kind == "array":
		return "list of " + typeText(at(schema, "items"))
	case get(schema, "additionalProperties") != nil:
		return fmt.Sprintf("object with %s for each %s", typeText(at(schema, "additionalProperties")), typeText(at(schema, "propertyNames")))
	case nullable:
		return kind + " or null"
	}
	return kind
}

// anchorOf is the anchor of the heading of a request.
func anchorOf(heading string) string {
	return strings.ToLower(strings.NewReplacer(" ", "-", "/", "").Replace(heading))
}
