package redact_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"xdsrelay/relay/redact"
)

// TestText: what has the form of a secret goes, and the rest stays.
func TestText(t *testing.T) {
	jwt := "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"
	tests := []struct{ in, want string }{
		{"", ""},
		{"connection refused", "connection refused"},
		{"dial tcp 10.0.0.1:6379: connect: connection refused", "dial tcp 10.0.0.1:6379: connect: connection refused"},
		{"dial redis://app:s3cret@cache:6379/0: EOF", "dial redis://[redacted]@cache:6379/0: EOF"},
		{"dial rediss://:s3:cr@t@cache", "dial rediss://[redacted]@cache"},
		{"see https://example.com/a@b", "see https://example.com/a@b"},
		{"bad key -----BEGIN PRIVATE KEY-----\nAAAA\nBBBB\n-----END PRIVATE KEY----- in line 3", "bad key [redacted] in line 3"},
		{`bad key "-----BEGIN RSA PRIVATE KEY-----\nAAAA\nBBBB`, `bad key "[redacted]`},
		{"got header Authorization: Bearer abc.def", "got header Authorization: [redacted] [redacted]"},
		{"got Bearer abc.def, expected none", "got Bearer [redacted], expected none"},
		{"got Basic dXNlcjpwYXNz", "got Basic [redacted]"},
		{"the claim " + jwt + " is over", "the claim [redacted] is over"},
		{`{"password": "hunter \"2\"", "user": "a"}`, `{"password": "[redacted]", "user": "a"}`},
		{`{\"inlineBytes\": \"aGVsbG8=\", \"filename\": \"/a\"}`, `{\"inlineBytes\": \"[redacted]\", \"filename\": \"/a\"}`},
		{`inline_string: "the content"`, `inline_string: "[redacted]"`},
		{"password=hunter2&user=a", "password=[redacted]&user=a"},
		{"x-api-key: abc", "x-api-key: [redacted]"},
		{"token_file: /run/token", "token_file: /run/token"},
		{"cannot read /run/secrets/token: no such file", "cannot read /run/secrets/token: no such file"},
		{"header=password=hunter2", "header=password=[redacted]"},
		{"x-functions-key: abc", "x-functions-key: [redacted]"},
		{"POSTGRES_DSN=host=db password=x", "POSTGRES_DSN=[redacted] password=[redacted]"},
		{"https://blob/a?sv=2024&sig=abc%3D&se=1", "https://blob/a?sv=2024&sig=[redacted]&se=1"},
		{"api key: abc", "api key: [redacted]"},
		{`password := "a b"`, `password := "[redacted]"`},
		{`"password" => "a b"`, `"password" => "[redacted]"`},
		{`{\\"password\\":\\"a\\\\\\" b\\", \\"x\\": 1}`, `{\\"password\\":\\"[redacted]\\", \\"x\\": 1}`},
		{`{"body": "{\\"a\\": \\"{\\\\\\"token\\\\\\": \\\\\\"c d\\\\\\"}\\"}"}`, `{"body": "{\\"a\\": \\"{\\\\\\"token\\\\\\": \\\\\\"[redacted]\\\\\\"}\\"}"}`},
		{`{"passwords": ["a", "b]"], "x": 1}`, `{"passwords": [redacted], "x": 1}`},
		{`{"passwordProfile": {"value": "a}"}, "x": 1}`, `{"passwordProfile": [redacted], "x": 1}`},
		{"Cookie: a=b; c=d\nAccept: x", "Cookie: [redacted]\nAccept: x"},
		{"Authorization: Custom abc def", "Authorization: [redacted] [redacted] def"},
		{"password:\n  value: x\nzone: a", "password:\n  [redacted]\nzone: a"},
		{"password: |\n  x\n  y", "password: [redacted]"},
	}
	for _, test := range tests {
		if got := redact.Text(test.in); got != test.want {
			t.Errorf("Text(%q) =\n\t%q\nwant\n\t%q", test.in, got, test.want)
		}
	}
}

// TestTextIsUTF8: whatever a server wrote into its error can be written in a message.
func TestTextIsUTF8(t *testing.T) {
	for _, in := range []string{"no route: \xff\xfe", strings.Repeat("é", 40_000)[1:], "password=" + strings.Repeat("é", 40_000)} {
		if got := redact.Text(in); !utf8.ValidString(got) {
			t.Errorf("Text(%.20q) is no UTF-8: %.40q", in, got)
		}
	}
}

// TestTextIsBounded holds that no text is longer than it may be, and stays UTF-8.
func TestTextIsBounded(t *testing.T) {
	for _, long := range []string{strings.Repeat("x", 5000), strings.Repeat("é", 100_000), "a" + strings.Repeat("é", 4000)} {
		got := redact.Text(long)
		if len(got) > redact.MaxText+len("… (longer)") || !strings.HasSuffix(got, "… (longer)") || strings.ToValidUTF8(got, "?") != got {
			t.Errorf("a text of %d bytes gives one of %d that ends with %q", len(long), len(got), got[max(0, len(got)-20):])
		}
	}
}

// TestSensitive: names in each way of writing.
func TestSensitive(t *testing.T) {
	for _, name := range []string{
		"password", "dbPassword", "DB_PASSWORD", "x-api-key", "Authorization", "proxy-authorization", "client_secret", "accessToken",
		"AWS_SECRET_ACCESS_KEY", "private_key", "token", "tokens", "Set-Cookie", "psk", "auth", "inline_bytes", "json_key", "secret.value",
		"x-functions-key", "ocp-apim-subscription-key", "AccountKey", "DB_DSN", "databaseDsn", "dsn", "sig", "x-sig", "signature", "passwordProfile",
		"PASSWORD_PROFILE", "MYSQL_PWD", "db-pass", "basicAuth", "sslPSK", "PHPSESSID", "connectionString", "OTP", "api key",
	} {
		if !redact.Sensitive(name) {
			t.Errorf("%s is not taken for the name of a secret", name)
		}
	}
	for _, name := range []string{"", "key", "name", "cluster", "token_path", "secretName", "password_file", "keyspace", "passthrough", "authority", "tokenUri", "pinned",
		"tokenfile", "PASSWORD_FILE", "signature_algorithms", "design", "compass", "config", "signal", "x-keys", "routing_key", "keyName"} {
		if redact.Sensitive(name) {
			t.Errorf("%s is taken for the name of a secret", name)
		}
	}
}

// FuzzText: whatever surrounds a secret, it goes.
func FuzzText(f *testing.F) {
	f.Add("", "")
	f.Add(`{"a": "`, `"}`)
	f.Add("-----BEGIN", "=")
	f.Add("token: ", "@")
	f.Fuzz(func(t *testing.T, before, after string) {
		if len(before)+len(after) > 1000 {
			return
		}
		for _, secret := range []string{"\npassword=CANARY7", " redis://u:CANARY7@h ", "\n-----BEGIN K-----\nCANARY7\n-----END K-----\n", " bearer CANARY7 "} {
			if strings.Contains(before+after, "CANARY7") {
				return
			}
			if got := redact.Text(before + secret + after); strings.Contains(got, "CANARY7") {
				t.Errorf("Text(%q) = %q", before+secret+after, got)
			}
		}
	})
}

// TestTextCutsBetweenRunes: to cut a text makes it no worse UTF-8.
func TestTextCutsBetweenRunes(t *testing.T) {
	for most := 90; most < 110; most++ {
		if got := redact.Short(strings.Repeat("€", 5000), most); strings.ContainsRune(got, utf8.RuneError) || !utf8.ValidString(got) {
			t.Errorf("cut after %d bytes: %q", most, got)
		}
		if got := redact.Short(strings.Repeat("\x80", 5000), most); !utf8.ValidString(got) {
			t.Errorf("cut after %d bytes: %q", most, got)
		}
	}
}
