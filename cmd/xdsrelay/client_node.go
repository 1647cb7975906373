package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/goccy/go-yaml"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"xdsrelay/relay"
	"xdsrelay/relay/bootstrap"
	"xdsrelay/relay/xdsget"
)

// clientNode is the Node of a client, as flags describe it.
type clientNode struct {
	file, id, cluster, region, zone, subZone, metadata string

	node *corev3.Node
}

// read reads the file, which flags override.
func (n *clientNode) read(flags *pflag.FlagSet) error {
	n.node = &corev3.Node{Id: n.id, UserAgentName: "xdsrelay client"}
	if n.file != "" {
		text, err := readSome(n.file, 4<<20)
		if err == nil {
			n.node, err = relay.ParseNode(text)
		}
		if err != nil {
			return usageError{fmt.Errorf("node file: %w", err)}
		}
	}
	if flags.Changed("node-id") {
		n.node.Id = n.id
	}
	if flags.Changed("node-cluster") {
		n.node.Cluster = n.cluster
	}
	if flags.Changed("region") || flags.Changed("zone") || flags.Changed("sub-zone") {
		l := n.node.GetLocality()
		n.node.Locality = &corev3.Locality{
			Region: cmp.Or(n.region, l.GetRegion()), Zone: cmp.Or(n.zone, l.GetZone()), SubZone: cmp.Or(n.subZone, l.GetSubZone()),
		}
	}
	if n.metadata == "" {
		return nil
	}
	text, err := yaml.YAMLToJSON([]byte(n.metadata))
	if err == nil {
		n.node.Metadata = &structpb.Struct{}
		err = protojson.Unmarshal(text, n.node.Metadata)
	}
	if err != nil {
		return usageError{fmt.Errorf("--node-metadata: expected an object in JSON or YAML, like '{role: edge}': %w", err)}
	}
	return nil
}

// serverTLS is how to connect to a server.
type serverTLS struct {
	prefix string      // of its flags
	client *xdsget.TLS // nil for plaintext
}

// readServerTLS reads the files that flags name.
func readServerTLS(prefix string, t *bootstrap.TLS) (*serverTLS, error) {
	way := &serverTLS{prefix: prefix}
	if *t == (bootstrap.TLS{}) {
		return way, nil
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		return nil, usageError{fmt.Errorf("--%[1]scert and --%[1]scert-key are required together: set both or neither", prefix)}
	}
	for _, of := range []struct{ flag, file string }{{"ca", t.CAFile}, {"cert", t.CertFile}, {"cert-key", t.KeyFile}} {
		if of.file == "" {
			continue
		}
		f, err := os.Open(of.file)
		if err != nil {
			return nil, usageError{fmt.Errorf("--%s%s: %w", prefix, of.flag, err)}
		}
		_ = f.Close()
	}
	var err error
	if way.client, err = xdsget.NewTLS(t.CAFile, t.CertFile, t.KeyFile, t.ServerName); err != nil {
		return nil, usageError{fmt.Errorf("TLS: %w", err)}
	}
	return way, nil
}

// advice adds to an error of a server what to do about it.
func (way *serverTLS) advice(err error) error {
	e, ok := errors.AsType[*xdsget.Error](err)
	if !ok {
		return err
	}
	server, do := "--server", ""
	if way.prefix != "" {
		server = "--compare"
	}
	p := "--" + way.prefix
	switch e.Kind {
	case xdsget.Refused:
		do = fmt.Sprintf("start the server, or set %s to the address for xDS clients (of a relay: listener.address)", server)
	case xdsget.Unresolved:
		do = "check " + server
	case xdsget.NeedsTLS:
		do = fmt.Sprintf("set %stls, or %[1]sca to a file with the CA certificates that verify the server", p)
	case xdsget.NoTLS:
		do = fmt.Sprintf("omit %stls, %[1]sca, %[1]scert, %[1]scert-key and %[1]sserver-name", p)
	case xdsget.NotGRPC:
		do = fmt.Sprintf("set %s to the address for xDS clients (of a relay: listener.address, not the admin port)", server)
	case xdsget.Authority:
		do = fmt.Sprintf("set %sca to a file with the CA certificates that verify the server", p)
	case xdsget.WrongName:
		do = fmt.Sprintf("set %sserver-name to a name in the certificate", p)
	case xdsget.NoCertificate:
		do = fmt.Sprintf("set %scert and %[1]scert-key to a certificate that the server accepts", p)
	case xdsget.Denied:
		do = "if the server is a relay, 'xdsrelay explain --node-file FILE' shows its rules for the Node"
	case xdsget.Invalid:
		do = "check the Node: --node-cluster, --node-metadata or --node-file"
	case xdsget.Unimplemented:
		do = "try --variant sotw, or with or without --per-type"
	}
	if do == "" {
		return err
	}
	return fmt.Errorf("%w; %s", err, do)
}
