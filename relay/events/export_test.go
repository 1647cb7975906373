package events

import "strings"

// Placeholders are the names in a template.
func Placeholders(template string) []string { return placeholders(template) }

func placeholders(template string) (names []string) {
	for {
		_, after, found := strings.Cut(template, "{")
		if !found {
			return names
		}
		names = append(names, nameIn(after))
		template = after
	}
}
