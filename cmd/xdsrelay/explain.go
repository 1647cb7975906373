package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
)

// keyFlags say of which client a key is explained, and by which rules.
type keyFlags struct{ config, node, peer, peerID, listener string }

// add adds the flags. The rules are those of a file or of the flag key.
func (k *keyFlags) add(cmd *cobra.Command, without string) {
	flags := cmd.Flags()
	flags.StringVarP(&k.config, "config", "c", "", "the configuration `FILE` with the rules; without it, "+without)
	flags.StringVar(&k.node, "node", "", "`FILE` with the client's Node as JSON or YAML, or its bootstrap")
	flags.StringVar(&k.peer, "peer", "", "`FILE` with what the client's certificate proves, as JSON: authenticated, spiffe_id, dns_names, …")
	flags.StringVar(&k.peerID, "peer-id", "", "the SPIFFE `ID` that the client's certificate proves")
	flags.StringVar(&k.listener, "listener", "", "`NAME` of the listener that the client comes by")
	flags.String("key", "", "`CEL`: the only rule, in place of those of the configuration")
	if err := cmd.MarkFlagRequired("node"); err != nil {
		panic(err) // the flag is defined just above
	}
}

// read reads the files about the client.
func (k *keyFlags) read() (node, peer []byte, err error) {
	if node, err = readSome(k.node, 4<<20); err == nil {
		node, err = relay.NodeJSON(node)
	}
	if err != nil {
		return nil, nil, usageError{fmt.Errorf("node file: %w", err)}
	}
	if k.peer != "" {
		if peer, err = readSome(k.peer, 1<<20); err != nil {
			return nil, nil, usageError{fmt.Errorf("peer file: %w", err)}
		}
	}
	if k.peerID != "" || k.listener != "" {
		if peer, err = k.addTo(peer); err != nil {
			return nil, nil, usageError{fmt.Errorf("peer file: %w", err)}
		}
	}
	return node, peer, nil
}

// addTo puts what the flags say of the client into the JSON of the peer file.
func (k *keyFlags) addTo(peer []byte) ([]byte, error) {
	fields := map[string]any{}
	if len(peer) > 0 {
		if err := json.Unmarshal(peer, &fields); err != nil {
			return nil, err
		}
	}
	if k.peerID != "" {
		fields["authenticated"], fields["spiffe_id"], fields["uris"] = true, k.peerID, []string{k.peerID}
	}
	if k.listener != "" {
		fields["listener"] = k.listener
	}
	return json.Marshal(fields)
}

// explain works the key out here.
func (a *app) explain(cmd *cobra.Command, k keyFlags, node, peer []byte) (relay.KeyExplanation, error) {
	cfg, err := load(config.Input{File: k.config, Env: a.env, Flags: readSettings(cmd.Flags(), "key"), WithoutUpstream: true})
	if err != nil {
		return relay.KeyExplanation{}, err
	}
	ex, err := relay.ExplainKey(cfg, node, peer, version)
	if err != nil {
		return ex, usageError{err}
	}
	return ex, nil
}

// newKeyExplainCmd explains a key against a tier that runs.
func (a *app) newKeyExplainCmd() *cobra.Command {
	var k keyFlags
	cmd := &cobra.Command{
		Use:   "explain --node FILE",
		Short: "Explain which key a client gets in a running tier, and who owns it",
		Long: "Explain which rule matches a client, the key that it gives, which node of the\n" +
			"running tier owns that key, and from where the other nodes get it. The rules are\n" +
			"those of the node that is asked, or of the file or flag that names others. The exit\n" +
			"code is 1 if the client is refused.",
		Example: "  xdsrelay key explain --node node.json\n" +
			"  xdsrelay key explain --node node.json -c relay.yaml --admin 127.0.0.1:19010",
		Args: cobra.NoArgs,
	}
	k.add(cmd, "those of the running node")
	node := a.addRemote(cmd)
	cmd.RunE = a.action(func(cmd *cobra.Command) error {
		client, peer, err := k.read()
		if err != nil {
			return err
		}
		if k.config != "" || cmd.Flags().Changed("key") {
			return a.explainAndAsk(cmd, k, node, client, peer)
		}
		query := url.Values{}
		if len(peer) > 0 {
			query.Set("peer", string(peer))
		}
		code, text, err := node.ask(cmd.Context(), http.MethodPost, "/tier/explain", query, client)
		switch {
		case errors.Is(err, errNobody):
			return fmt.Errorf("%w; -c or --key explain the key without a node", err)
		case err != nil:
			return err
		case code == http.StatusBadRequest:
			return usageError{errors.New(firstLine(errors.New(text)))}
		case code == http.StatusUnprocessableEntity:
			fmt.Fprint(a.stdout, text)
			return errRefused
		case code != http.StatusOK:
			return errors.New(firstLine(errors.New(text)))
		}
		fmt.Fprint(a.stdout, text)
		return nil
	})
	return cmd
}

// explainAndAsk works the key out here and asks a node who owns it. That there is no
// node is no failure: the rest is said all the same.
func (a *app) explainAndAsk(cmd *cobra.Command, k keyFlags, node *remote, client, peer []byte) error {
	ex, err := a.explain(cmd, k, client, peer)
	if err != nil {
		return err
	}
	if ex.Refused() {
		return a.printKey(ex, node.json)
	}
	code, text, err := node.ask(cmd.Context(), http.MethodGet, "/tier/owner", url.Values{"key": {string(ex.Result.Key)}}, nil)
	if err == nil && code != http.StatusOK {
		err = errors.New(firstLine(errors.New(text)))
	}
	if err != nil && !errors.Is(err, errNobody) {
		return err
	}
	if !node.json {
		fmt.Fprint(a.stdout, printableLines(ex.String()))
		if err != nil {
			fmt.Fprintf(a.stderr, "\nwho owns the key is not known: %v\n", err)
			return nil
		}
		fmt.Fprintf(a.stdout, "\n%s", text)
		return nil
	}
	owner := map[string]any{}
	if err == nil {
		if err := json.Unmarshal([]byte(text), &owner); err != nil {
			return fmt.Errorf("the answer of %s cannot be read: %w", node.address, err)
		}
	} else {
		fmt.Fprintf(a.stderr, "who owns the key is not known: %v\n", err)
	}
	owner["rules"], owner["refused"] = ex, false
	out, err := json.MarshalIndent(owner, "", "  ")
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%s\n", printableJSON(out))
	return nil
}
