// Package host is one opened adapter: its device, its engines with the shards that run them, its memory, and how all of that
// ends. It knows causes (provider.Outcome) and no status codes: packages nd and ndk are each a surface on it, and map causes
// for themselves (ND specification 2.4).
package host
