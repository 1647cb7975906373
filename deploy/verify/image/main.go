// Command image makes the image of xdsrelay, for all platforms that it is given a
// program for, without a container engine. The same inputs give the same digest.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "image: %v\n", err)
		os.Exit(1)
	}
}

// run makes the image that the arguments describe.
func run(ctx context.Context, args []string) error {
	var (
		in               inputs
		created          int64
		output, push     string
		flags            = flag.NewFlagSet("image", flag.ContinueOnError)
		programs         []string
		describePrograms = "`PLATFORM=FILE`, like linux/amd64=bin/xdsrelay; once for each platform"
	)
	flags.Func("program", describePrograms, func(s string) error { programs = append(programs, s); return nil })
	flags.StringVar(&in.version, "version", "dev", "the program's `VERSION`")
	flags.StringVar(&in.revision, "revision", "", "the `COMMIT` that the program was built from")
	flags.Int64Var(&created, "created", 0, "when that was, in `SECONDS` since 1970")
	flags.StringVar(&in.license, "license", "", "the `FILE` with the license")
	flags.StringVar(&in.notices, "notices", "", "the `FILE` with the licenses of the modules in the program")
	flags.StringVar(&output, "o", "", "the `FILE` to write: a tar archive of an OCI image layout")
	flags.StringVar(&push, "push", "", "also push it as `REGISTRY/NAME:TAG`, with the credentials of docker login")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || output == "" || len(programs) == 0 {
		return errors.New("expected -o and at least one -program, and nothing else")
	}
	in.created = time.Unix(created, 0).UTC()
	for _, p := range programs {
		platform, file, ok := strings.Cut(p, "=")
		if !ok {
			return fmt.Errorf("got -program %q, expected PLATFORM=FILE", p)
		}
		in.programs = append(in.programs, platformProgram{platform, file})
	}
	index, err := in.build()
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	if err := writeArchive(output, index, "xdsrelay:"+in.version); err != nil {
		return err
	}
	fmt.Printf("%s  %s\n", digest, output)
	if push == "" {
		return nil
	}
	ref, err := name.ParseReference(push)
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(ref, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return err
	}
	fmt.Printf("pushed %s@%s\n", ref.Context(), digest)
	return nil
}
