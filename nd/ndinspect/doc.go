// Package ndinspect asks running processes what their adapters do: each adapter has a Unix socket that only its owner may use, and root, unless
// nd.AdapterConfig.Inspect says otherwise.
package ndinspect
