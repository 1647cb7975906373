package conn

import (
	"context"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"

	"xdsrelay/relay/aggregation"
)

// Credentials returns credentials for a gRPC server that accepts from any number of Listeners, each
// with its own handshake. A connection from another listener is plaintext and has no description.
//
// grpc-go bounds the time of a handshake (grpc.ConnectionTimeout): its deadline is set on the
// accepted connection, which the handshake reads from.
func Credentials() credentials.TransportCredentials { return serverCredentials{} }

type serverCredentials struct{}

func (serverCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, ok := raw.(*Conn)
	if !ok {
		return raw, nil, nil
	}
	info := aggregation.Connection{}
	if secure := c.listener.cfg.Secure; secure != nil {
		conn, described, err := secure(c.raw)
		if err != nil {
			return nil, nil, err
		}
		c.Conn, info = conn, described
	}
	info.Listener = c.listener.cfg.Name
	return c, &info, nil
}

func (serverCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are for a server")
}

func (serverCredentials) Info() credentials.ProtocolInfo { return credentials.ProtocolInfo{} }

func (c serverCredentials) Clone() credentials.TransportCredentials { return c }

func (serverCredentials) OverrideServerName(string) error {
	return errors.New("these credentials are for a server")
}
