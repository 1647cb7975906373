package rollout

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestQueries holds how places are filled in, and which queries are refused.
func TestQueries(t *testing.T) {
	about := &Question{
		Key: `shop"} or vector(0)#.*`, Revision: "r-5f31c2a0", Step: 2,
		Canaries: Asked{2, []string{"pod-1.a", `x|"y\`}}, Control: Asked{1, []string{"it's"}},
	}
	for text, want := range map[string]string{
		`up`: `up`,
		`up{a="{{key}}",b='{{ revision }}',c="{{step}}"}`: `up{a="shop\"} or vector(0)#.*",b='r-5f31c2a0',c="2"}`,
		`up{a=~"{{key}}-.*"}`:                             `up{a=~"shop\"\\} or vector\\(0\\)#\\.\\*-.*"}`,
		`up{a =~ "{{canaries}}"}`:                         `up{a =~ "pod-1\\.a|x\\|\"y\\\\"}`,
		`up{a!~'{{control}}'}`:                            `up{a!~'it\'s'}`,
		"up{a=\"\\\"{{step}}`\"} # \"{{":                  "up{a=\"\\\"2`\"} # \"{{",
		"up # it's \"\n{a=\"{{step}}\"}":                  "up # it's \"\n{a=\"2\"}",
		"up{a=`\\`,b=\"{{step}}\"}":                       "up{a=`\\`,b=\"2\"}",
		`{{key}}`:                                         `has {{key}} outside of a string`,
		"up{a=`{{key}}`}":                                 `has {{key}} outside of a string`,
		`up{a="{{canaries}}"}`:                            `has {{canaries}} without =~`,
		`up{a="{{nodes}}"}`:                               `has {{nodes}}, expected {{key}}`,
		`up{a="{{key"}`:                                   `has {{ without }}`,
		`up{a="b}`:                                        `has a string without an end`,
		`up{a="` + strings.Repeat("x", maxQuery) + `"}`:   `has 8200 bytes`,
	} {
		got := ""
		q, err := ParseQuery(text)
		if err == nil {
			got, err = q.For(about)
		}
		if err != nil {
			got = err.Error()
		}
		if err == nil && got != want || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, expected %s", text, got, want)
		}
	}
	for _, arm := range []string{"canaries", "control"} {
		q, err := ParseQuery(`up{a=~"{{` + arm + `}}"}`)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := q.For(&Question{Canaries: Asked{Clients: 1, IDs: []string{""}}}); err == nil || !strings.Contains(err.Error(), arm) {
			t.Errorf("no client: %s, %v", got, err)
		}
	}
}

// TestAlternatives holds that a regular expression of ids matches these alone, and has a bound.
func TestAlternatives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfN(rapid.StringN(1, 8, -1), 1, 5).Draw(t, "ids")
		re := regexp.MustCompile(`^(?s:` + alternatives(ids) + `)$`)
		other := rapid.StringN(0, 8, -1).Draw(t, "other")
		known := false
		for _, id := range ids {
			known = known || id == other
			if !re.MatchString(id) {
				t.Fatalf("%q does not match %s", id, re)
			}
		}
		if re.MatchString(other) != known {
			t.Fatalf("%q and %s", other, re)
		}
	})
	var many []string
	for i := range 2 * MaxAsked {
		many = append(many, fmt.Sprint("client-", i))
	}
	if got := strings.Count(alternatives(many), "|") + 1; got != MaxAsked {
		t.Errorf("%d ids, expected %d", got, MaxAsked)
	}
	if got := alternatives([]string{strings.Repeat("x", maxAlternatives), "a", strings.Repeat("y", maxAlternatives-1), "b"}); got != "a|b" {
		t.Errorf("%d bytes", len(got))
	}
}

// FuzzQueries holds that nothing that clients name changes a query around the string that it is in: the
// query for any names has as many strings as that for plain ones.
func FuzzQueries(f *testing.F) {
	f.Add(`up{a="{{key}}",b=~'{{canaries}}'}`, `"} or up{x="`, `\`)
	f.Fuzz(func(t *testing.T, text, key, id string) {
		q, err := ParseQuery(text)
		if err != nil || id == "" {
			return
		}
		plain, err := q.For(&Question{Key: "k", Canaries: Asked{IDs: []string{"i"}}, Control: Asked{IDs: []string{"i"}}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := q.For(&Question{Key: key, Canaries: Asked{IDs: []string{id}}, Control: Asked{IDs: []string{id}}})
		if err != nil {
			if len(id) < maxAlternatives/8 {
				t.Fatal(err)
			}
			return
		}
		if a, b := outside(plain), outside(got); a != b {
			t.Errorf("%q and %q", a, b)
		}
	})
}

// outside is a query without the contents of its strings.
func outside(text string) string {
	var b strings.Builder
	var quote byte
	comment := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case comment:
			comment = c != '\n'
		case quote == 0 && c == '#':
			comment = true
		case quote == c:
			quote = 0
		case quote == 0 && strings.IndexByte("\"'`", c) >= 0:
			quote = c
		case quote != 0:
			if c == '\\' && quote != '`' {
				i++
			}
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}
