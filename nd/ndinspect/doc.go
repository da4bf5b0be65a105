// Package ndinspect queries the adapters of running processes. Each adapter has a Unix socket that only its user and root may use,
// unless nd.AdapterConfig.Inspect turns it off.
package ndinspect
