package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is who the program runs as: nobody in particular.
const user = 65532

// inputs is all that an image depends on.
type inputs struct {
	programs          []platformProgram
	version, revision string
	created           time.Time
	license, notices  string // files
}

type platformProgram struct{ platform, file string }

// build makes the images of all platforms, and the index that names them.
func (in inputs) build() (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range in.programs {
		platform, err := v1.ParsePlatform(p.platform)
		if err != nil {
			return nil, err
		}
		image, err := in.image(p.file, platform)
		if err != nil {
			return nil, fmt.Errorf("image for %s: %w", p.platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	return mutate.Annotations(index, in.labels()).(v1.ImageIndex), nil
}

// labels describe the image, by the names of the OCI image specification.
func (in inputs) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "xdsrelay",
		"org.opencontainers.image.description": "A relay tier between an xDS control plane and a fleet of Envoys and gRPC clients",
		"org.opencontainers.image.version":     in.version,
		"org.opencontainers.image.revision":    cmp.Or(in.revision, "unknown"),
		"org.opencontainers.image.created":     in.created.Format(time.RFC3339),
		"org.opencontainers.image.licenses":    "Apache-2.0",
	}
}

// image makes the image of one platform: a layer with what changes seldom, and one
// with the program.
func (in inputs) image(program string, platform *v1.Platform) (v1.Image, error) {
	base, err := in.base()
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, l := range []struct {
		what  string
		files []file
	}{{"certificates, user, license", base}, {"the program", []file{{"xdsrelay", 0o755, data}}}} {
		layer, err := in.layer(l.files)
		if err != nil {
			return nil, err
		}
		image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{CreatedBy: l.what, Created: v1.Time{Time: in.created}}})
		if err != nil {
			return nil, err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = platform.OS, platform.Architecture, platform.Variant
	config.Created = v1.Time{Time: in.created}
	config.Config = v1.Config{
		User:         fmt.Sprintf("%d:%d", user, user),
		Entrypoint:   []string{"/xdsrelay"},
		WorkingDir:   "/",
		Env:          []string{"SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
		ExposedPorts: map[string]struct{}{"18000/tcp": {}, "18100/tcp": {}, "19001/tcp": {}},
		StopSignal:   "SIGTERM",
		Labels:       in.labels(),
	}
	return mutate.ConfigFile(image, config)
}

// file is a file of a layer; one without data is a directory.
type file struct {
	name string
	mode int64
	data []byte
}

// base is what the program needs around it.
func (in inputs) base() ([]file, error) {
	license, err := os.ReadFile(in.license)
	if err != nil {
		return nil, err
	}
	notices, err := os.ReadFile(in.notices)
	if err != nil {
		return nil, err
	}
	return []file{
		{"etc", 0o755, nil},
		{"etc/group", 0o644, fmt.Appendf(nil, "root:x:0:\nxdsrelay:x:%d:\n", user)},
		{"etc/passwd", 0o644, fmt.Appendf(nil, "root:x:0:0::/:/nonexistent\nxdsrelay:x:%d:%d::/:/nonexistent\n", user, user)},
		{"etc/ssl", 0o755, nil},
		{"etc/ssl/certs", 0o755, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, authorities()},
		{"etc/xdsrelay", 0o755, nil},
		{"licenses", 0o755, nil},
		{"licenses/LICENSE", 0o644, license},
		{"licenses/THIRD-PARTY-NOTICES", 0o644, notices},
	}, nil
}

// authorities are those that Mozilla trusts, at the version in go.sum, and not those
// of the machine that builds. What Mozilla trusts only in part is left out, since a
// file cannot say so.
func authorities() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // into memory
		}
	}
	return out.Bytes()
}

// layer packs files; all times are that of the image.
func (in inputs) layer(files []file) (v1.Layer, error) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: in.created, Format: tar.FormatUSTAR}
		if f.data == nil {
			header.Typeflag, header.Name = tar.TypeDir, f.name+"/"
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }, tarball.WithMediaType(types.OCILayer))
}
