package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
)

// keyFlag is the flag with the only rule of a quick start.
const keyFlag = "key-expression"

// explainFlags describe a client, and the rules that explain its key.
type explainFlags struct {
	config, node, peer, spiffeID, listener string

	offline bool
}

// errRefused makes a command fail whose output says why the client is refused.
var errRefused = errors.New("the client is refused")

// newExplainCmd explains the key of a client.
func (a *app) newExplainCmd() *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain --node-file FILE",
		Short: "Explain which aggregation key a client gets, and which node owns it",
		Long: "Explain which aggregation key a client gets: the rules for authorization and for the\n" +
			"key one by one, the key, and the Node that the control plane sees for all clients with\n" +
			"the key. For a running tier, also show the owner of the key and its followers.\n\n" +
			"The running node applies its own rules. With -c or --" + keyFlag + ", this command\n" +
			"applies the rules of the file or flag, and asks the node only for the owner. With\n" +
			"--offline it does not connect to a node.",
		Example: "  xdsrelay explain --node-file node.json\n" +
			"  xdsrelay explain --node-file node.json -c relay.yaml --offline\n" +
			"  xdsrelay explain --node-file envoy.yaml --" + keyFlag + " 'node.cluster + \"/\" + node.locality.zone' --offline",
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.config, "config", "c", "", configUsage)
	flags.StringVar(&f.node, "node-file", "", nodeFileUsage)
	flags.StringVar(&f.peer, "peer-file", "", "`FILE` with the verified properties of the client's certificate as JSON: authenticated, spiffe_id, dns_names, …")
	flags.StringVar(&f.spiffeID, "spiffe-id", "", "SPIFFE `ID` in the client's certificate")
	flags.StringVar(&f.listener, "listener", "", "`NAME` of the listener that the client connects to")
	addSetting(flags, keyFlag)
	flags.BoolVar(&f.offline, "offline", false, "do not connect to a node; without -c and --"+keyFlag+", apply the default rule")
	require(cmd, "node-file")
	node := a.addAdmin(cmd)
	out := addOutput(cmd, asTable)
	exitCodes(cmd, "the client gets a key", "the client is refused, or no node answers", usuallyWrong)
	cmd.RunE = a.action(func(cmd *cobra.Command, _ []string) error {
		if err := out.check(); err != nil {
			return err
		}
		client, peer, err := f.read()
		if err != nil {
			return err
		}
		if f.offline || f.config != "" || cmd.Flags().Changed(keyFlag) {
			return a.explainHere(cmd, &f, node, out, client, peer)
		}
		return a.explainThere(cmd.Context(), node, out, client, peer)
	})
	return cmd
}

// read reads the files about the client.
func (f *explainFlags) read() (node, peer []byte, err error) {
	if node, err = readSome(f.node, 4<<20); err == nil {
		node, err = relay.NodeJSON(node)
	}
	if err != nil {
		return nil, nil, usageError{fmt.Errorf("node file: %w", err)}
	}
	if f.peer != "" {
		if peer, err = readSome(f.peer, 1<<20); err != nil {
			return nil, nil, usageError{fmt.Errorf("peer file: %w", err)}
		}
	}
	if f.spiffeID != "" || f.listener != "" {
		if peer, err = f.addTo(peer); err != nil {
			return nil, nil, usageError{fmt.Errorf("peer file: %w", err)}
		}
	}
	return node, peer, nil
}

// addTo adds the properties that flags give to the JSON of the peer file.
func (f *explainFlags) addTo(peer []byte) ([]byte, error) {
	fields := map[string]any{}
	if len(peer) > 0 {
		if err := json.Unmarshal(peer, &fields); err != nil {
			return nil, err
		}
	}
	if f.spiffeID != "" {
		fields["authenticated"], fields["spiffe_id"], fields["uris"] = true, f.spiffeID, []string{f.spiffeID}
	}
	if f.listener != "" {
		fields["listener"] = f.listener
	}
	return json.Marshal(fields)
}

// explainThere asks a node to explain.
func (a *app) explainThere(ctx context.Context, node *remote, out *output, client, peer []byte) error {
	query := url.Values{}
	if len(peer) > 0 {
		query.Set("peer", string(peer))
	}
	code, answer, err := node.ask(ctx, http.MethodPost, "/tier/explain", query, client, !out.isTable())
	switch {
	case errors.Is(err, errNobody):
		return fmt.Errorf("%w; --offline explains the key without a node", err)
	case err != nil:
		return err
	case code == http.StatusBadRequest:
		return usageError{errors.New(firstLine(errors.New(answer)))}
	case code != http.StatusOK && code != http.StatusUnprocessableEntity:
		return errors.New(firstLine(errors.New(answer)))
	}
	v := view{data: json.RawMessage(answer), table: text(answer)}
	if out.form == asName && code == http.StatusOK {
		var found struct{ Key struct{ Key string } }
		if err := json.Unmarshal([]byte(answer), &found); err != nil {
			return fmt.Errorf("%s sent an answer that is not JSON: %w", node.found.Admin, err)
		}
		v.names = []string{found.Key.Key}
	}
	if err := out.print(a.stdout, v); err != nil {
		return err
	}
	if code != http.StatusOK {
		return errRefused
	}
	return nil
}

// explainHere explains by the rules of a file or flag, and asks a node for the owner. Without a node,
// the rest is still useful.
func (a *app) explainHere(cmd *cobra.Command, f *explainFlags, node *remote, out *output, client, peer []byte) error {
	cfg, err := load(config.Input{File: f.config, Env: a.env, Flags: readSettings(cmd.Flags(), keyFlag), WithoutUpstream: true, WithoutFiles: true})
	if err != nil {
		return err
	}
	ex, err := relay.ExplainKey(cfg, client, peer, version)
	if err != nil {
		return usageError{err}
	}
	data := map[string]any{"rules": ex, "refused": ex.Refused()}
	if ex.Refused() {
		if err := out.print(a.stdout, view{data: data, table: text(ex.String())}); err != nil {
			return err
		}
		return errRefused
	}
	shown := ex.String()
	if !f.offline && out.form != asName {
		code, owner, err := node.ask(cmd.Context(), http.MethodGet, "/tier/owner", url.Values{"key": {string(ex.Result.Key)}}, nil, out.isData())
		switch {
		case errors.Is(err, errNobody):
			fmt.Fprintf(a.stderr, "the owner of the key is unknown: %s\n", printableLines(err.Error()))
		case err != nil:
			return err
		case code != http.StatusOK:
			return errors.New(firstLine(errors.New(owner)))
		case out.isData():
			var found map[string]json.RawMessage
			if err := json.Unmarshal([]byte(owner), &found); err != nil {
				return fmt.Errorf("%s sent an answer that is not JSON: %w", node.found.Admin, err)
			}
			for _, field := range []string{"key", "silent"} {
				if value, ok := found[field]; ok {
					data[field] = value
				}
			}
		default:
			shown += "\n" + owner
		}
	}
	return out.print(a.stdout, view{data: data, names: []string{string(ex.Result.Key)}, table: text(shown)})
}
