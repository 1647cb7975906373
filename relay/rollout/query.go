package rollout

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The places of a query. The relay fills them in for each question.
const (
	placeKey      = "key"
	placeRevision = "revision"
	placeStep     = "step"
	placeCanaries = "canaries"
	placeControl  = "control"
)

var places = []string{placeKey, placeRevision, placeStep, placeCanaries, placeControl}

// Query is a PromQL expression with places in its strings, such as {{key}}.
type Query struct{ parts []queryPart }

// queryPart is a text, or a place in a string that has a quote, and is a regular expression or not.
type queryPart struct {
	text, place string
	quote       byte
	isRegexp    bool
}

const (
	maxQuery = 8 << 10
	// maxAlternatives bounds a regular expression of ids, in bytes. Ids for which it has no room are left out.
	maxAlternatives = 64 << 10
)

// ParseQuery reads a query. Places are allowed in strings alone, so that nothing that a client names can
// change the query around them.
func ParseQuery(text string) (q Query, err error) {
	if len(text) > maxQuery {
		return q, fmt.Errorf("has %d bytes, expected at most %d", len(text), maxQuery)
	}
	var quote byte // of the string at i; 0: there is none
	isRegexp, from := false, 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case strings.HasPrefix(text[i:], "{{"):
			p := queryPart{quote: quote, isRegexp: isRegexp}
			name, _, closed := strings.Cut(text[i+2:], "}}")
			p.place = strings.TrimSpace(name)
			if err := p.check(closed); err != nil {
				return Query{}, err
			}
			q.parts = append(q.parts, queryPart{text: text[from:i]}, p)
			i += len(name) + 3
			from = i + 1
		case quote == 0 && c == '#':
			if end := strings.IndexByte(text[i:], '\n'); end >= 0 {
				i += end
			} else {
				i = len(text)
			}
		case quote == 0 && (c == '"' || c == '\'' || c == '`'):
			before := strings.TrimRight(text[:i], " \t\r\n")
			quote, isRegexp = c, strings.HasSuffix(before, "=~") || strings.HasSuffix(before, "!~")
		case quote == c:
			quote = 0
		case quote != 0 && quote != '`' && c == '\\':
			i++
		}
	}
	if quote != 0 {
		return Query{}, errors.New("has a string without an end")
	}
	q.parts = append(q.parts, queryPart{text: text[from:]})
	return q, nil
}

func (p *queryPart) check(closed bool) error {
	switch {
	case !closed:
		return errors.New("has {{ without }}")
	case !slices.Contains(places, p.place):
		return fmt.Errorf("has {{%.40s}}, expected {{%s}}", p.place, strings.Join(places, "}}, {{"))
	case p.quote == 0 || p.quote == '`':
		return fmt.Errorf(`has {{%s}} outside of a string in "" or ''`, p.place)
	case p.isArm() && !p.isRegexp:
		return fmt.Errorf(`has {{%s}} without =~ or !~ before its string, expected for example pod=~"{{%[1]s}}"`, p.place)
	}
	return nil
}

// isArm reports whether the place is for the ids of an arm.
func (p *queryPart) isArm() bool { return p.place == placeCanaries || p.place == placeControl }

// uses reports whether the query has a place.
func (q *Query) uses(place string) bool {
	return slices.ContainsFunc(q.parts, func(p queryPart) bool { return p.place == place })
}

// For returns the query for a question. It fails if the query is about an arm without clients: an empty
// regular expression matches what has no such label.
func (q *Query) For(about *Question) (string, error) {
	var b strings.Builder
	for _, p := range q.parts {
		value := ""
		switch p.place {
		case "":
			b.WriteString(p.text)
			continue
		case placeKey:
			value = about.Key
		case placeRevision:
			value = about.Revision
		case placeStep:
			value = strconv.Itoa(about.Step)
		case placeCanaries:
			value = alternatives(about.Canaries.IDs)
		case placeControl:
			value = alternatives(about.Control.IDs)
		}
		if p.isArm() && value == "" {
			return "", fmt.Errorf("no connected client with an id is in {{%s}}", p.place)
		}
		if p.isRegexp && !p.isArm() {
			value = regexp.QuoteMeta(value)
		}
		writeQuoted(&b, value, p.quote)
	}
	return b.String(), nil
}

// alternatives is a regular expression that matches ids.
func alternatives(ids []string) string {
	var b strings.Builder
	for i, id := range ids {
		quoted := regexp.QuoteMeta(id)
		if i >= MaxAsked || id == "" || b.Len()+len(quoted) >= maxAlternatives {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('|')
		}
		b.WriteString(quoted)
	}
	return b.String()
}

// writeQuoted writes a value into a string of PromQL that has a quote.
func writeQuoted(b *strings.Builder, value string, quote byte) {
	for _, r := range value {
		switch {
		case r == '\\' || r == rune(quote):
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
}
