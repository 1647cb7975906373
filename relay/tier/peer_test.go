package tier

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"xdsrelay/relay/xdstest"
	"xdsrelay/shard"
)

// TestQuestionsAMinute: a node asks each node that it follows once a second whether it is
// there, more often only where the owner timeout is so short that it would be noticed too
// late, and asks nothing of a node that it does not follow.
func TestQuestionsAMinute(t *testing.T) {
	for timeout, want := range map[time.Duration]int{2 * time.Second: 60, time.Minute: 60, 200 * time.Millisecond: 600} {
		t.Run(timeout.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := xdstest.NewMemory()
				l, err := network.Listen("127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				asked := 0
				gs := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
					asked++ // one question at a time
					if err := s.RecvMsg(&wrapperspb.StringValue{}); err != nil {
						return err
					}
					return s.SendMsg(wrapperspb.Bytes([]byte("{}")))
				}))
				go func() { _ = gs.Serve(l) }()
				defer gs.Stop()
				peers := NewPeers(PeersConfig{Self: "a", Timeout: timeout, DialOptions: []grpc.DialOption{
					network.Option(), grpc.WithTransportCredentials(insecure.NewCredentials()),
				}})
				defer peers.Close()
				b := shard.Member{Name: "b", Peer: l.Addr().String()}
				peers.retain(shard.NewView([]shard.Member{b}))
				time.Sleep(time.Minute) //nolint:forbidigo // virtual time
				if asked > 0 {
					t.Errorf("%d questions for a node that is not followed", asked)
				}
				one := peers.use(b)
				time.Sleep(time.Minute) //nolint:forbidigo // virtual time
				one.leave()
				synctest.Wait()
				if asked < want-2 || asked > want+2 {
					t.Errorf("%d questions a minute, expected %d", asked, want)
				}
			})
		})
	}
}
