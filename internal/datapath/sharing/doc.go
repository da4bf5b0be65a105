// Package sharing shares an address among the adapters of a machine (PROTOCOL §7.8). The first adapter receives on the well-known UDP port,
// others on ports of their own; requests that the well-known port gets for others are handed over.
package sharing
