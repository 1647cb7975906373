package relay_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"xdsrelay/fanout/limit"
	"xdsrelay/fanout/rejection"
	"xdsrelay/relay/telemetry"
)

var (
	metricPattern = regexp.MustCompile(`^xdsrelay(\.[a-z][a-z0-9]*(_[a-z0-9]+)*)+$`)
	labelPattern  = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	// Type names are identifiers, too: those of protocol buffers.
	typePattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*$`)
	// The exporter adds units and _total. Ages, percentages and the words that the glossary replaces
	// have no place in a name.
	bannedParts = []string{
		"total", "bytes", "seconds", "milliseconds", "ratio", "percent", "count", "age",
		"origin", "member", "members", "refused", "refusals", "good", "bad", "behind", "away", "alone", "cut", "unacked",
	}
	bannedWords = regexp.MustCompile(`(?i)\b(origins?|members?|refused|turned away|told|anew|whoever|of late|served all the same|good no more|beside|beyond)\b`)
)

// TestMetricConventions: all instruments follow the naming conventions of OpenTelemetry and
// Prometheus, and the glossary.
func TestMetricConventions(t *testing.T) {
	for _, problem := range unconventional(allInstruments(t)) {
		t.Error(problem)
	}
}

// unconventional returns what is wrong with the names, units, labels and descriptions of instruments.
func unconventional(all []telemetry.Instrument) (problems []string) {
	for _, i := range all {
		wrong := func(what string) { problems = append(problems, i.Name+": "+what) }
		if !metricPattern.MatchString(i.Name) {
			wrong("a name has parts in snake_case, separated by dots")
		}
		for _, other := range all {
			if strings.HasPrefix(other.Name, i.Name+".") {
				wrong("is also the namespace of " + other.Name)
			}
		}
		for part := range strings.FieldsFuncSeq(i.Name, func(r rune) bool { return r == '.' || r == '_' }) {
			// The names last_known_good and not_after are exceptions with other words around.
			if slices.Contains(bannedParts, part) && !strings.Contains(i.Name, "last_known_"+part) {
				wrong("has the word " + part)
			}
		}
		problems = append(problems, unitProblems(i)...)
		for _, l := range i.Labels {
			if !labelPattern.MatchString(l.Name) {
				wrong("the label " + l.Name + " is not in snake_case")
			}
			for _, v := range l.Values {
				if typed := l.Name == "type" || l.Name == "service"; !labelPattern.MatchString(v) && !(typed && typePattern.MatchString(v)) {
					wrong("the label " + l.Name + " has the value " + v + ", which is no identifier")
				}
			}
			if len(l.Values) == 0 && (l.Pattern == "" || l.Meaning == "") {
				wrong("nothing is known of the values of the label " + l.Name)
			}
		}
		problems = append(problems, textProblems(i)...)
	}
	return problems
}

func unitProblems(i telemetry.Instrument) (problems []string) {
	suffix := map[string]string{"s": "_seconds", "By": "_bytes", "": ""}[i.Unit]
	if i.Unit == "1" {
		suffix = "_ratio"
	}
	if i.Kind == telemetry.Counter {
		suffix += "_total"
	}
	if !strings.HasSuffix(i.Prometheus, suffix) || !slices.Contains([]string{"", "s", "By", "1"}, i.Unit) {
		problems = append(problems, i.Name+": the unit "+i.Unit+" does not suit the name "+i.Prometheus)
	}
	if strings.HasSuffix(i.Name, "timestamp") && (i.Unit != "s" || i.Kind != telemetry.Gauge || !strings.HasPrefix(i.Description, "Unix time ")) {
		problems = append(problems, i.Name+": a timestamp is a gauge in seconds of Unix time")
	}
	if (i.Unit == "1") != strings.HasSuffix(i.Name, ".utilization") || i.Unit == "1" && i.Kind != telemetry.Gauge {
		problems = append(problems, i.Name+": a ratio is a gauge whose name ends in .utilization")
	}
	if i.Kind == telemetry.Histogram && !strings.HasSuffix(i.Name, ".duration") {
		problems = append(problems, i.Name+": a histogram of time ends in .duration")
	}
	return problems
}

func textProblems(i telemetry.Instrument) (problems []string) {
	if word := bannedWords.FindString(i.Description); word != "" {
		problems = append(problems, i.Name+": the description says "+word)
	}
	if d := i.Description; d == "" || !strings.HasSuffix(d, ".") || strings.ToUpper(d[:1]) != d[:1] {
		problems = append(problems, i.Name+": a description is a sentence")
	}
	for sentence := range strings.SplitSeq(i.Description, ". ") {
		if n := len(strings.Fields(sentence)); n > 35 {
			problems = append(problems, i.Name+": a sentence of the description has more than 35 words")
		}
	}
	return problems
}

// TestMetricConventionsAreNoticed: the rules find what is wrong.
func TestMetricConventionsAreNoticed(t *testing.T) {
	const fine = "Open streams."
	wrong := map[string]telemetry.Instrument{
		"snake_case, separated":  {Name: "xdsrelay.openStreams", Description: fine},
		"has the word age":       {Name: "xdsrelay.response.age", Prometheus: "xdsrelay_response_age_seconds", Unit: "s", Kind: telemetry.Gauge, Description: fine},
		"does not suit":          {Name: "xdsrelay.use", Prometheus: "xdsrelay_use_percent", Unit: "%", Description: fine},
		"is a gauge in seconds":  {Name: "xdsrelay.last_timestamp", Prometheus: "xdsrelay_last_timestamp", Kind: telemetry.Gauge, Description: fine},
		"ends in .utilization":   {Name: "xdsrelay.use", Prometheus: "xdsrelay_use_ratio", Unit: "1", Kind: telemetry.Gauge, Description: fine},
		"ends in .duration":      {Name: "xdsrelay.took", Prometheus: "xdsrelay_took_seconds", Unit: "s", Kind: telemetry.Histogram, Description: fine},
		"which is no identifier": {Name: "xdsrelay.files", Description: fine, Labels: []telemetry.Label{{Name: "reason", Values: []string{"bad directory name"}}}},
		"description says":       {Name: "xdsrelay.keys", Description: "Keys of an origin."},
		"is a sentence":          {Name: "xdsrelay.keys", Description: "keys"},
		"more than 35 words":     {Name: "xdsrelay.keys", Description: "Keys" + strings.Repeat(" and keys", 20) + "."},
	}
	for want, i := range wrong {
		if got := unconventional([]telemetry.Instrument{i}); !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("%+v: %q, expected %q", i, got, want)
		}
	}
	clash := []telemetry.Instrument{{Name: "xdsrelay.keys", Description: fine}, {Name: "xdsrelay.keys.down", Description: fine}}
	if got := unconventional(clash); len(got) != 1 || !strings.Contains(got[0], "is also the namespace of xdsrelay.keys.down") {
		t.Errorf("a name that is a namespace: %q", got)
	}
}

// TestRejectionLabels: the page lists all values of the label where, and the reasons of limits are
// identifiers that differ.
func TestRejectionLabels(t *testing.T) {
	for _, i := range allInstruments(t) {
		if i.Name == rejection.Metric && !slices.Equal(i.Labels[0].Values, rejection.All()) {
			t.Errorf("documented are %q, want %q", i.Labels[0].Values, rejection.All())
		}
	}
	seen := make(map[string]limit.Name)
	for _, n := range limit.All() {
		if n.Where() == "" {
			continue
		}
		if other, twice := seen[n.Reason()]; twice || !labelPattern.MatchString(n.Reason()) {
			t.Errorf("the reason of the limits %s and %s is %q", n, other, n.Reason())
		}
		seen[n.Reason()] = n
	}
}
