// Package provider is the transport engine: packets, requests and time in; packets, completions and deadlines out.
package provider
