// Command secureweb serves HTTP over encrypted ND connections. Both sides have certificates with SPIFFE identities of one trust domain,
// and admit a peer by its identity. The handler reads the identity in Request.TLS. In a cluster, certificates come from SPIRE or
// cert-manager; here the program issues them itself. It runs both sides in one process over loopback.
package main
