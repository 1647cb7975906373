package resource

import "strings"

// OtherLabel replaces all unknown types in labels of metrics and attributes of spans: clients may
// invent type URLs, and each would be a new time series.
const OtherLabel = "other"

// TypeLabel returns a type URL as a label of metrics: the name of the message for a known type, and
// [OtherLabel] for all others.
func TypeLabel(url string) string {
	if IsKnown(url) {
		return strings.TrimPrefix(url, TypePrefix)
	}
	return OtherLabel
}

// TypeLabels returns all values of [TypeLabel], including those of version 2.
func TypeLabels() (labels []string) {
	for _, types := range [][]*Type{known, knownV2, knownIstio} {
		for _, t := range types {
			labels = append(labels, TypeLabel(t.URL))
		}
	}
	return append(labels, OtherLabel)
}
