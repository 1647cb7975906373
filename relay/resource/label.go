package resource

import "strings"

// OtherLabel stands for all types that are not known, where types are labels
// of metrics or attributes of spans: clients may invent type URLs, and each would be
// a new time series.
const OtherLabel = "other"

// TypeLabel is a type URL as a label of metrics: of those that are known, the name
// of the message, and [OtherLabel] of all others.
func TypeLabel(url string) string {
	if IsKnown(url) {
		return strings.TrimPrefix(url, TypePrefix)
	}
	return OtherLabel
}

// TypeLabels are all values of [TypeLabel], those of version 2 too.
func TypeLabels() (labels []string) {
	for _, types := range [][]*Type{known, knownV2, knownIstio} {
		for _, t := range types {
			labels = append(labels, TypeLabel(t.URL))
		}
	}
	return append(labels, OtherLabel)
}
