package redact_test

import (
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"xdsrelay/relay/redact"
)

// hostile are texts that make a search slow if it looks at a part more than once.
var hostile = map[string]string{
	"names with values":        "a:",
	"names that are secret":    "token:",
	"separators":               ":",
	"equals signs":             "=",
	"separators with spaces":   " : ",
	"spaces":                   "token:   ",
	"long names":               "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.",
	"quotes":                   `"a":"`,
	"quotes in quotes":         `\"a\":\"`,
	"backslashes":              `\`,
	"quotes behind backslash":  `token="\\\"`,
	"open brackets":            "token:[",
	"open braces":              `token={"`,
	"empty secrets":            "token:,",
	"schemes":                  "a://",
	"schemes with credentials": "a://@",
	"base64":                   "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo",
	"PEM blocks":               "-----BEGIN A-----",
	"PEM ends":                 "-----BEGIN A----------END",
	"dashes":                   "-",
	"bearer":                   "bearer ",
	"basic":                    "basic a ",
	"signed tokens":            "eyJaaaaa.",
	"signed tokens cut off":    "eyJaaaaa-",
	"tokens of services":       "ghp_hvs.",
	"cookies":                  "cookie: a ",
	"lines":                    "password:\n",
}

// nsPerByte is the least time that redacting takes of a few tries.
func nsPerByte(unit string, size int) float64 {
	text := strings.Repeat(unit, size/len(unit)+1)[:size]
	n := &corev3.Node{Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewStringValue(text)}}}
	best := time.Duration(1 << 62)
	for range 3 {
		began := time.Now()
		redact.Node(n)
		best = min(best, time.Since(began))
	}
	return float64(best) / float64(size)
}

// grows reports whether a byte of a large text costs many times as much as one of a small
// text, and much by itself. In linear time it costs about the same, some 100 ns at most; in
// quadratic time as many times more as the text is larger, and about as many ns as the text
// has bytes.
func grows(t *testing.T, unit string, small, large int) bool {
	const much = 5000 // ns
	var ratio, ns float64
	for range 3 { // a busy machine counts once at most
		ns = nsPerByte(unit, large)
		if ratio = ns / nsPerByte(unit, small); ratio < float64(large/small)/2 || ns < much {
			return false
		}
	}
	t.Errorf("%.40q repeated: a byte of %d costs %.0f ns, %.1f times as much as one of %d", unit, large, ns, ratio, small)
	return true
}

// TestLinear holds that redaction takes time in proportion to the text, whatever that is.
func TestLinear(t *testing.T) {
	for _, unit := range hostile {
		for _, large := range []int{16 << 10, 64 << 10, 256 << 10} {
			if grows(t, unit, 2<<10, large) {
				break
			}
		}
	}
}

// FuzzLinear looks for a text that takes more than linear time.
func FuzzLinear(f *testing.F) {
	f.Add("a:")
	f.Add(`token="\"`)
	f.Fuzz(func(t *testing.T, unit string) {
		if unit == "" || len(unit) > 200 {
			return
		}
		unit = strings.ToValidUTF8(unit, "?")
		grows(t, unit, 2<<10, 64<<10)
	})
}

// BenchmarkText shows the cost for each byte, over sizes.
func BenchmarkText(b *testing.B) {
	for name, unit := range hostile {
		for _, size := range []int{1 << 10, 16 << 10, 64 << 10} {
			text := strings.Repeat(unit, size/len(unit)+1)[:size]
			n := &corev3.Node{Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewStringValue(text)}}}
			b.Run(name+"/"+time.Duration(size).String(), func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					redact.Node(n)
				}
			})
		}
	}
}

// TestCutFirst holds that what is not shown of a text costs nothing: neither time nor
// memory.
func TestCutFirst(t *testing.T) {
	long := strings.Repeat("a:", 8<<20)
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			redact.Text(long)
		}
	}).AllocedBytesPerOp()
	if allocated > 16*redact.MaxText {
		t.Errorf("a text of %d bytes takes %d to be shown, of which %d are", len(long), allocated, redact.MaxText)
	}
}

// TestCutSecret holds that no secret is shown because its end was cut off, by which it
// would have been recognized.
func TestCutSecret(t *testing.T) {
	for _, secret := range []string{
		"redis://app:CANARY7CANARY7CANARY7@cache:6379", "Bearer CANARY7CANARY7", "password: CANARY7CANARY7", `{"token": "CANARY7 CANARY7"}`,
		"Basic CANARY7CANARY7", "hvs.CANARY7CANARY7", "ghp_CANARY7CANARY7CANARY7", "eyJCANARY7.CANARY7.CANARY7",
		"redis://app:" + strings.Repeat("CANARY7", 100) + "@cache",
	} {
		for cut := range len(secret) {
			for name, text := range map[string]string{
				"text":  redact.Text(strings.Repeat("x ", redact.MaxText)[cut:redact.MaxText] + secret + strings.Repeat(" x", 100)),
				"short": redact.Short(strings.Repeat("x ", 1000)[cut:1000]+secret+strings.Repeat(" x", 1000), 1000),
			} {
				if strings.Contains(text, "CANARY7") {
					t.Fatalf("%s: cut %d bytes into %.30q: ends with %q", name, cut, secret, text[max(0, len(text)-60):])
				}
			}
		}
	}
}
