package relay

import "testing"

// TestAdminURL: a node says where its admin port is only if it can be reached there.
func TestAdminURL(t *testing.T) {
	for _, c := range []struct{ admin, peer, want string }{
		{"127.0.0.1:19000", "127.0.0.1:18001", "http://127.0.0.1:19000"},
		{"127.0.0.1:19000", "localhost:18001", "http://127.0.0.1:19000"},
		{"127.0.0.1:19000", "10.0.0.2:18001", ""},
		{"[::]:19000", "10.0.0.2:18001", "http://10.0.0.2:19000"},
		{"0.0.0.0:19000", "relay-1.relay:18001", "http://relay-1.relay:19000"},
		{"10.0.0.3:19000", "10.0.0.2:18001", "http://10.0.0.3:19000"},
		{"[::]:19000", "", ""},
		{"127.0.0.1:19000", "", ""},
		{"", "10.0.0.2:18001", ""},
	} {
		if got := urlOfAdmin("http", c.admin, c.peer); got != c.want {
			t.Errorf("admin %s, peer %s: got %q, expected %q", c.admin, c.peer, got, c.want)
		}
	}
}
