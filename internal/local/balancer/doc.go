// Package balancer is the TCP load balancer in front of the servers of one cluster, those of its API or those of its etcd. It
// also has the form of the files for its configuration and its status.
//
// It knows backends by name and address, asks each for its health, and moves connections between them. It
// does not know machines, Cluster API or who starts it: it reads a configuration file, and reads it again
// whenever it changes. It runs as a process of its own, so that clients stay connected while the process that
// wrote the file is away.
//
// Health is GET /readyz over TLS, or the URL that a backend is given with. The certificate is not verified: the answer decides only where
// new connections are tried first, and each client verifies the API server that it ends up with by itself.
//
// A machine that freezes, or is cut off, resets no connection: its clients would wait. So each backend is also pinged, and one that says
// nothing for a second, to no ping and on no connection, loses its connections, but only while another backend answers pings.
package balancer
