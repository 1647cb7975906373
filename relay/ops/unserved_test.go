package ops

import "testing"

// TestUnserved: a client that was sent nothing has no configuration, nor has one that waits for a control
// plane that is unreachable. A single type about which the control plane is silent does not matter.
func TestUnserved(t *testing.T) {
	silent := Type{State: NotSent, Waiting: "control plane has not answered"}
	for _, tc := range []struct {
		types []Type
		want  bool
	}{
		{nil, true},
		{[]Type{silent, silent}, true},
		{[]Type{silent, {State: Synced}}, false},
		{[]Type{{State: Synced}, {State: NotSent, Waiting: "control plane unreachable"}}, true},
		{[]Type{{State: Stale}}, false},
		{[]Type{{State: Synced, URL: "other"}, {State: NotSent, URL: "this"}}, true},
		{[]Type{{State: Synced, URL: "this"}, {State: NotSent, URL: "other", Waiting: "control plane unreachable"}}, false},
	} {
		c := Client{Types: tc.types}
		url := ""
		if len(tc.types) > 0 && tc.types[0].URL != "" {
			url = "this"
		}
		if got := c.Unserved(url); got != tc.want {
			t.Errorf("%v: %v, expected %v", tc.types, got, tc.want)
		}
	}
}
