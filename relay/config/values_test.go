package config

import "testing"

// TestCompression holds what listen.compression takes, in a file and as text, and
// that it is written as it is read.
func TestCompression(t *testing.T) {
	for text, want := range map[string]Compression{"true": CompressionOn, "false": CompressionOff, "32KiB": 32 << 10} {
		for _, quote := range []string{"", `"`} {
			cfg, err := parseFile("relay.yaml", []byte("listen: {compression: "+quote+text+quote+"}"))
			if err != nil {
				t.Errorf("%s: %v", quote+text+quote, err)
				continue
			}
			if got := cfg.Listen.Compression; got != want || got.String() != text {
				t.Errorf("%s is %d, written %s, expected %d", quote+text+quote, got, got, want)
			}
		}
	}
	for _, text := range []string{"", "0", "0B", "-1B", "4096", "on", "[true]", "~", "{from: 1KiB}"} {
		if cfg, err := parseFile("relay.yaml", []byte("listen: {compression: "+text+"}")); err == nil {
			t.Errorf("%q is taken for %s", text, cfg.Listen.Compression)
		}
	}
}
