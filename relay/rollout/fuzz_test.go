package rollout

import (
	"encoding/json"
	"math"
	"testing"
	"time"
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

// FuzzRecord holds that a record which counts leads to a state like any other.
func FuzzRecord(f *testing.F) {
	for _, text := range []string{
		`{"Reached":3,"Run":{"Step":1,"Canaries":{"Hashes":[1,2]}},"Refused":["5f31c2a05f31c2a05f31c2a05f31c2a0"]}`,
		`{"Reached":3,"Run":{"Step":0}}`, `{"Reached":200}`, `{"Reached":2,"Run":{"Step":-1}}`, `{"Reached":4,"Run":{"Step":99}}`,
		`{"Reached":5,"Why":{"Outcome":77,"Findings":[{"Signal":99}]}}`, `{"Reached":2,"Run":{"Canaries":{"Hashes":[2,1]}}}`,
	} {
		f.Add([]byte(text), uint8(0))
		f.Add([]byte(text), uint8(2))
	}
	f.Fuzz(func(_ *testing.T, text []byte, preset uint8) {
		var r Record
		if json.Unmarshal(text, &r) != nil || r.Check() != nil {
			return
		}
		names := []string{Quick, Standard, Careful}
		now := time.Unix(1e9, 0)
		k := Restore(r, Preset(names[int(preset)%len(names)]), now)
		for range 50 {
			v := View{Answered: true, Grant: Given, Eligible: 3, Present: 3, Verdict: Verdict{Outcome: Passes}}
			_ = k.State.String() + k.Why.Reasons() + k.Waiting(&v, now).String() + k.Run.Share().String()
			_ = k.IsOverdue(now)
			switch d := k.Next(&v, now); d.Act {
			case Wait:
				now = now.Add(time.Hour)
				k.Changed(now)
			case MakeCut:
				if _, _, ok := k.Cut(Digest{1}, now); !ok {
					return
				}
			case PassApproval:
				k.PassApproval(now)
			case PassTokens:
				k.Granted(now)
			case ChooseScouts, ChooseCanaries, KeepCanaries:
				k.Chosen(RosterOf(1), RosterOf(2), 30, now)
			case Refill:
				k.Refilled(RosterOf(3), RosterOf(4), now)
			case PromoteAll:
				k.Promoted(Arm{}, time.Second, now)
			case Pass:
				k.Passed(now)
			case Fail:
				k.Failed(v.Verdict, now)
			}
		}
	})
}
