package etcd

import (
	"context"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"
)

// telling are TLS credentials of which the connections tell why a member closed them.
//
// With TLS 1.3 our end of the handshake is over before the member looks at our certificate. What is
// written until its refusal is read fails with a broken pipe, which does
// not show that the member lives and that the certificate is wrong.
type telling struct {
	credentials.TransportCredentials
}

// ClientHandshake implements credentials.TransportCredentials.
func (t telling) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := t.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, err
	}
	return tellingConn{conn}, info, nil
}

// Clone implements credentials.TransportCredentials.
func (t telling) Clone() credentials.TransportCredentials {
	return telling{t.TransportCredentials.Clone()}
}

type tellingConn struct{ net.Conn }

// Write fails with what the member said last, where that is a refusal.
func (c tellingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err == nil {
		return n, nil
	}
	// The connection is broken: it has something to read at once, or never.
	if late := c.SetReadDeadline(time.Now().Add(retryInterval)); late != nil {
		return n, err
	}
	if _, last := c.Read(make([]byte, 1)); last != nil && strings.Contains(last.Error(), alert) {
		return n, last
	}
	return n, err
}

// alert is how Go begins what the other end of a TLS connection complains of.
const alert = "remote error: tls: "

// refusal is what a member that lives holds against our certificate; empty: the error is another.
func refusal(err error) string {
	_, complaint, found := strings.Cut(err.Error(), alert)
	if !found {
		return ""
	}
	complaint, _, _ = strings.Cut(complaint, `"`)
	if complaint == "expired certificate" {
		complaint = "expired, or not yet valid by its clock"
	}
	return "it refuses our certificate: " + complaint
}
