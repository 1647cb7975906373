package link

// Owner is whose versions the content of a stream has.
type Owner uint8

const (
	// NoServer: no server is known.
	NoServer Owner = iota
	// Before: a server's that sent them before the present feed, before a restart or to another node.
	Before
	// ThisServer: those of the server that has answered, all of them.
	ThisServer
	// Mixed: the server has answered for the first time, and some are still those of another one.
	Mixed
)

// Versions is which server of the control plane the versions of the content belong to. The zero value
// is that of a stream without content.
type Versions struct {
	owner  Owner
	server string // its address, or that of the newer one
}

// SentBy records the address of the server that answers.
func (v *Versions) SentBy(server string) {
	if v.owner = ThisServer; v.server != "" && v.server != server {
		v.owner = Mixed
	}
	v.server = server
}

// Restored records the server of content from before a restart, or of another node. It changes
// nothing if a server is known, or if the address is empty.
func (v *Versions) Restored(server string) {
	if v.server == "" && server != "" {
		v.owner, v.server = Before, server
	}
}

// restart records that a new feed begins.
func (v *Versions) restart() {
	if v.owner != NoServer {
		v.owner = Before
	}
}

// Server is the address of the server that has answered last; "" if none is known.
func (v *Versions) Server() string { return v.server }

// AreCurrent reports whether all versions are those of [Versions.Server], on the present feed.
func (v *Versions) AreCurrent() bool { return v.owner == ThisServer }
