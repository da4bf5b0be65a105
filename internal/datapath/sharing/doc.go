// Package sharing shares an address among the adapters of a machine (PROTOCOL §7.8). The first adapter receives on the well-known UDP
// port, and all others on ports of their own. Requests for other adapters that arrive on the well-known port are handed over.
package sharing
