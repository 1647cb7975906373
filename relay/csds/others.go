package csds

import (
	"context"
	"errors"
	"io"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Method is how nodes ask one another: a stream with one request.
const Method = "/envoy.service.status.v3.ClientStatusDiscoveryService/StreamClientStatus"

// Other is another node of the tier.
type Other struct {
	Name string
	// Stray says that it may have ended long ago, so that nothing is said of it where it
	// does not answer.
	Stray bool
	// Ask asks it for its own part, and returns the stream of the answer.
	Ask func(ctx context.Context, req *statusv3.ClientStatusRequest) (grpc.ClientStream, error)
}

// silence is how long another node may take for its next message.
const silence = 3 * time.Second

// page is a message of another node, or why there is none; io.EOF at the end.
type page struct {
	configs []*statusv3.ClientConfig
	err     error
}

// ask asks a node. One message is fetched ahead, so several nodes make their first ones
// at the same time.
func (o Other) ask(ctx context.Context, req *statusv3.ClientStatusRequest) <-chan page {
	out := make(chan page)
	send := func(p page) bool {
		select {
		case out <- p:
			return true
		case <-ctx.Done():
			return false
		}
	}
	go func() {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		late := time.AfterFunc(silence, func() { cancel(errSilent) })
		defer late.Stop()
		fail := func(err error) {
			if errors.Is(context.Cause(ctx), errSilent) {
				err = errSilent
			}
			send(page{err: err})
		}
		stream, err := o.Ask(ctx, req)
		if err != nil {
			fail(err)
			return
		}
		for {
			var rsp statusv3.ClientStatusResponse
			if err := stream.RecvMsg(&rsp); err != nil {
				fail(err)
				return
			}
			late.Stop() // whoever reads may take his time
			if !send(page{configs: rsp.GetConfig()}) {
				return
			}
			late.Reset(silence)
		}
	}()
	return out
}

var errSilent = errors.New("no answer within " + silence.String())

// others adds what the other nodes say of themselves. One that does not answer, or not
// to the end, is there as a config with the node's name and the status UNKNOWN, which
// says why: nobody should take a part for the whole.
func (s *Service) others(ctx context.Context, req *statusv3.ClientStatusRequest, others []Other, p *pages) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make([]<-chan page, len(others))
	for i, o := range others {
		answers[i] = o.ask(ctx, req)
	}
	for i, o := range others {
		for {
			var one page
			select {
			case one = <-answers[i]:
			case <-ctx.Done():
				return status.FromContextError(ctx.Err()).Err()
			}
			if errors.Is(one.err, io.EOF) {
				break
			}
			if one.err != nil {
				if o.Stray {
					break
				}
				if err := p.silent(o, one.err); err != nil {
					return err
				}
				break
			}
			if err := p.repeat(one.configs); err != nil {
				return err
			}
		}
	}
	return nil
}

// repeat adds what another node has written.
func (p *pages) repeat(configs []*statusv3.ClientConfig) error {
	for _, c := range configs {
		p.begin(c.GetNode(), c.GetClientScope())
		for _, g := range c.GetGenericXdsConfigs() {
			if err := p.add(g); err != nil {
				return err
			}
		}
	}
	return nil
}

// silent adds a node that did not answer.
func (p *pages) silent(o Other, why error) error {
	text := why.Error()
	if s, ok := status.FromError(why); ok && s.Code() != codes.Unknown {
		text = s.Message()
	}
	p.begin(&corev3.Node{Id: o.Name, UserAgentName: "xdsrelay"}, "")
	return p.add(&statusv3.ClientConfig_GenericXdsConfig{
		ConfigStatus: statusv3.ConfigStatus_UNKNOWN,
		ErrorState:   &adminv3.UpdateFailureState{Details: "a node of the tier did not answer; its clients are missing here: " + text},
	})
}
