package verify

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// network is one that pods have addresses in, apart from that of this machine: a bridge
// in a network namespace of its own, and a namespace for each address.
type network struct {
	t      *testing.T
	name   string
	prefix netip.Prefix
	last   netip.Addr
	count  int
	// A copy of the program, to which the roots of pods have links.
	program string
}

// newNetwork makes a network, or skips the test where that is not allowed.
func newNetwork(t *testing.T, prefix string) *network {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can make networks")
	}
	possible(t)
	n := &network{t: t, name: fmt.Sprintf("xdsrelay-%d-%s", os.Getpid(), strings.ToLower(filepath.Base(t.Name()))), prefix: netip.MustParsePrefix(prefix)}
	n.program = filepath.Join(t.TempDir(), "xdsrelay")
	bin, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(n.program, bin, 0o755); err != nil {
		t.Fatal(err)
	}
	n.ip("netns", "add", n.name)
	n.cleanup(n.name)
	n.last = n.prefix.Addr().Next()
	n.ip("-n", n.name, "link", "add", "bridge", "type", "bridge")
	n.configure(n.name, "bridge", n.last)
	return n
}

// possible skips the test where pods cannot be started: a container may lack the right
// to make networks and mounts, a kernel bridges, and an image the programs.
func possible(t *testing.T) {
	t.Helper()
	const script = `ip link add bridge type bridge && ip link add one type veth peer name two && ip link set two master bridge up &&
ip address add 192.0.2.1/24 dev one && ip address add 2001:db8::1/64 dev one nodad && mount --bind "$0" "$0" && mount -o remount,bind,ro "$0"`
	for _, args := range [][]string{{"ip", "netns"}, {"unshare", "--net", "--mount", "sh", "-c", script, t.TempDir()}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("networks and mounts cannot be made here: %v: %s", err, out)
		}
	}
}

// place makes a namespace with the next address, and returns the names of both.
func (n *network) place() (namespace, address string) {
	n.t.Helper()
	n.count++
	n.last = n.last.Next()
	namespace = fmt.Sprintf("%s-%d", n.name, n.count)
	n.ip("netns", "add", namespace)
	n.cleanup(namespace)
	port := fmt.Sprintf("port%d", n.count)
	n.ip("-n", namespace, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", n.name)
	n.ip("-n", n.name, "link", "set", port, "master", "bridge", "up")
	n.configure(namespace, "eth0", n.last)
	return namespace, n.last.String()
}

func (n *network) configure(namespace, device string, address netip.Addr) {
	n.t.Helper()
	args := []string{"-n", namespace, "address", "add", netip.PrefixFrom(address, n.prefix.Bits()).String(), "dev", device}
	if address.Is6() {
		args = append(args, "nodad") // an address that is looked into first cannot be listened on
	}
	n.ip(args...)
	n.ip("-n", namespace, "link", "set", "lo", "up")
	n.ip("-n", namespace, "link", "set", device, "up")
}

func (n *network) ip(args ...string) {
	n.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		n.t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func (n *network) cleanup(namespace string) {
	n.t.Cleanup(func() {
		if out, err := exec.Command("ip", "netns", "delete", namespace).CombinedOutput(); err != nil {
			n.t.Errorf("network namespace %s: %v: %s", namespace, err, out)
		}
	})
}

// client speaks HTTP to the addresses of the network, as a kubelet does.
func (n *network) client() *http.Client {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		return n.dial(ctx, address)
	}}
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

// dial opens a connection from the bridge's namespace. The thread that does it goes
// with its goroutine, since it is in that namespace.
func (n *network) dial(ctx context.Context, address string) (conn net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		var there *os.File
		if there, err = os.Open("/run/netns/" + n.name); err != nil {
			return
		}
		defer there.Close()
		if err = unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
			err = errors.Join(errors.New("entering the network namespace"), err)
			return
		}
		conn, err = dialHere(ctx, address)
	}()
	<-done
	return conn, err
}

// dialHere connects on the thread it is called on, to an address that needs no looking up
// and takes no second attempt, which would be another goroutine's.
func dialHere(ctx context.Context, address string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", to.String())
}
