package rollout

import (
	"math"
	"testing"
)

// FuzzTexts holds that the texts of files and records that are read mean what they are written as.
func FuzzTexts(f *testing.F) {
	for _, text := range []string{"", "1%", "12.5%", "> 0.01", "<=-3e9", "5f31c2a05f31c2a05f31c2a05f31c2a0", "1e400%", "> 0x1p-2"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ParseShare(text); err == nil {
			if again, err := ParseShare(s.String()); err != nil || math.Abs(float64(again-s)) > 1e-9 || s < 0 || s > 1 {
				t.Errorf("%q is %v, and that is %v, %v", text, s, again, err)
			}
		}
		if c, err := ParseThreshold(text); err == nil {
			if out := c.Of(c.Value); out != Passes && out != Fails || c.Of(math.NaN()) != NotEnough {
				t.Errorf("%q is %v", text, c)
			}
		}
		var d Digest
		if d.UnmarshalText([]byte(text)) == nil {
			var again Digest
			written, _ := d.MarshalText()
			if err := again.UnmarshalText(written); err != nil || again != d {
				t.Errorf("%q is %v, and that is %v, %v", text, d, again, err)
			}
		}
	})
}
