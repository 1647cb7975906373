package conn

import (
	"context"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"

	"xdsrelay/relay/aggregation"
)

// Credentials are those of a gRPC server that accepts from doors, each of which has
// its own. What comes by another listener is plaintext, and nothing is known of it.
//
// grpc-go bounds the time that a handshake may take (grpc.ConnectionTimeout), since
// its deadline is set on the accepted connection, which the handshake reads from.
func Credentials() credentials.TransportCredentials { return serverCredentials{} }

type serverCredentials struct{}

func (serverCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, ok := raw.(*Conn)
	if !ok {
		return raw, nil, nil
	}
	info := aggregation.Connection{}
	if secure := c.door.cfg.Secure; secure != nil {
		conn, described, err := secure(c.raw)
		if err != nil {
			return nil, nil, err
		}
		c.Conn, info = conn, described
	}
	info.Listener = c.door.cfg.Name
	return c, &info, nil
}

func (serverCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are a server's")
}

func (serverCredentials) Info() credentials.ProtocolInfo { return credentials.ProtocolInfo{} }

func (c serverCredentials) Clone() credentials.TransportCredentials { return c }

func (serverCredentials) OverrideServerName(string) error {
	return errors.New("these credentials are a server's")
}
