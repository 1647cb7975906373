package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const repository = "../../.."

// program is what `make build` has built.
const program = repository + "/bin/xdsrelay"

// makeImage makes an image of the program for two platforms, of which only the first is
// true.
func makeImage(t *testing.T, output string, more ...string) {
	t.Helper()
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("%v: run `make build` first", err)
	}
	args := append([]string{
		"-program", "linux/amd64=" + program, "-program", "linux/arm64=" + program, "-version", "v1.2.3", "-revision", "abc", "-created", "1700000000",
		"-license", repository + "/LICENSE", "-notices", repository + "/README.md", "-o", output,
	}, more...)
	if err := run(t.Context(), args); err != nil {
		t.Fatal(err)
	}
}

// TestImage reads an image back: it is whole, says who made it, holds what it should
// and nothing else, and runs as nobody in a root that cannot be written.
func TestImage(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first.tar"), filepath.Join(dir, "second.tar")
	makeImage(t, first)
	makeImage(t, second)
	if a, b := read(t, first), read(t, second); !bytes.Equal(a, b) {
		t.Error("the same inputs give another image")
	}
	index := open(t, first)
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
	}
	if !slices.Equal(platforms, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("platforms %v", platforms)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	checkConfig(t, image)
	root := filepath.Join(dir, "root")
	names := extract(t, image, root)
	if want := []string{
		"etc", "etc/group", "etc/passwd", "etc/ssl", "etc/ssl/certs", "etc/ssl/certs/ca-certificates.crt", "etc/xdsrelay", "licenses", "licenses/LICENSE", "licenses/THIRD-PARTY-NOTICES", "xdsrelay",
	}; !slices.Equal(names, want) {
		t.Errorf("it holds %q, want %q", names, want)
	}
	pool := x509.NewCertPool()
	if text := read(t, filepath.Join(root, "etc", "ssl", "certs", "ca-certificates.crt")); !pool.AppendCertsFromPEM(text) || bytes.Count(text, []byte("BEGIN")) < 100 {
		t.Error("there are few certificates")
	}
	t.Run("run", func(t *testing.T) { runImage(t, root) })
}

func checkConfig(t *testing.T, image v1.Image) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := config.Config
	if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/xdsrelay"}) || len(c.Cmd) > 0 || len(c.Volumes) > 0 {
		t.Errorf("user %q, entrypoint %q, command %q, volumes %v", c.User, c.Entrypoint, c.Cmd, c.Volumes)
	}
	for name, want := range map[string]string{"version": "v1.2.3", "revision": "abc", "created": "2023-11-14T22:13:20Z", "title": "xdsrelay"} {
		if got := c.Labels["org.opencontainers.image."+name]; got != want {
			t.Errorf("label %s is %q, want %q", name, got, want)
		}
	}
	if len(config.History) != 2 || !config.Created.Equal(time.Unix(1700000000, 0)) {
		t.Errorf("history %v, created %v", config.History, config.Created)
	}
}

// runImage runs the program as a container engine would: without rights, in a root
// that cannot be written, with the resources of an example mounted.
func runImage(t *testing.T, root string) {
	if os.Getuid() != 0 {
		t.Skip("only root can change the root directory")
	}
	resources := filepath.Join(root, "etc", "xdsrelay")
	if err := os.CopyFS(resources, os.DirFS(repository+"/deploy/examples/directory")); err != nil {
		t.Fatal(err)
	}
	out, err := inRoot(t.Context(), root, "version").CombinedOutput()
	if err != nil && strings.Contains(string(out), "unshare: ") {
		t.Skipf("namespaces cannot be made here: %s", out)
	}
	if err != nil || !strings.HasPrefix(string(out), "xdsrelay ") {
		t.Fatalf("version: %v\n%s", err, out)
	}
	cmd := inRoot(t.Context(), root, "run", "--upstream", "/etc/xdsrelay", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	cmd.Env = []string{"XDSRELAY_METRICS_ADDRESS=127.0.0.1:0"}
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address := ""
	lines := bufio.NewScanner(said)
	var seen []string
	for address == "" && lines.Scan() {
		seen = append(seen, lines.Text())
		if m := regexp.MustCompile(`msg=serving .*metrics=(\S+)`).FindStringSubmatch(lines.Text()); m != nil {
			address = m[1]
		}
	}
	if address == "" {
		_ = cmd.Wait()
		t.Fatalf("it does not serve:\n%s", strings.Join(seen, "\n"))
	}
	for _, page := range []string{"/healthz", "/readyz", "/metrics"} {
		res, err := http.Get("http://" + address + page)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", page, res.StatusCode)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(said)
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v\n%s", err, rest)
	}
}

// inRoot is a command in the image's root, which is mounted read-only, as its user.
// The process is the program's own, so signals reach it.
func inRoot(ctx context.Context, root string, args ...string) *exec.Cmd {
	const script = `mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && ! touch "$0/written" 2>/dev/null &&
		exec chroot --userspec=65532:65532 "$0" /xdsrelay "$@"`
	return exec.CommandContext(ctx, "unshare", append([]string{"--mount", "sh", "-c", script, root}, args...)...)
}

// TestPush: the image can be pushed as it is.
func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug))))
	defer server.Close()
	dir := t.TempDir()
	name := strings.TrimPrefix(server.URL, "http://") + "/relays/xdsrelay:v1.2.3"
	makeImage(t, filepath.Join(dir, "image.tar"), "-push", name)
	res, err := http.Get(server.URL + "/v2/relays/xdsrelay/manifests/v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	digest, err := open(t, filepath.Join(dir, "image.tar")).Digest()
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Header.Get("Docker-Content-Digest"); got != digest.String() {
		t.Errorf("the registry has %s, want %s", got, digest)
	}
}

// TestMistakes: a command line that makes no sense makes no image.
func TestMistakes(t *testing.T) {
	output := filepath.Join(t.TempDir(), "image.tar")
	for _, args := range [][]string{
		{}, {"-o", output}, {"-program", "linux/amd64=x"}, {"-o", output, "-program", "linux/amd64"}, {"-o", output, "-program", "linux/amd64=x", "extra"},
		{"-o", output, "-program", "linux/amd64=/does/not/exist", "-license", repository + "/LICENSE", "-notices", repository + "/LICENSE"},
		{"-o", output, "-program", "linux/amd64=" + program, "-license", repository + "/LICENSE"},
	} {
		if err := run(t.Context(), args); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
	if _, err := os.Stat(output); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is an image: %v", err)
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// open unpacks an archive and returns the image's index.
func open(t *testing.T, archive string) v1.ImageIndex {
	t.Helper()
	dir := t.TempDir()
	unpack(t, bytes.NewReader(read(t, archive)), dir)
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := top.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%v (%v)", manifest, err)
	}
	if name := manifest.Manifests[0].Annotations["org.opencontainers.image.ref.name"]; name != "xdsrelay:v1.2.3" {
		t.Errorf("it is called %q", name)
	}
	index, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

// extract makes the root that a container of the image has.
func extract(t *testing.T, image v1.Image, root string) []string {
	t.Helper()
	files := mutate.Extract(image)
	defer files.Close()
	return unpack(t, files, root)
}

func unpack(t *testing.T, archive io.Reader, dir string) (names []string) {
	t.Helper()
	r := tar.NewReader(archive)
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			slices.Sort(names)
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
		name := filepath.Join(dir, header.Name)
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(name, 0o755)
		} else if err = os.MkdirAll(filepath.Dir(name), 0o755); err == nil {
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(name, data, os.FileMode(header.Mode))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
