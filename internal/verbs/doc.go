// Package verbs is what packages nd and nd/ndk have in common: one opened adapter with its device, its engines, the shards that run
// them and its memory, and what a call on an object of the adapter does and in which order it checks its arguments. It knows causes
// (provider.Outcome) and no status codes. Packages nd and ndk are each a surface on it: a surface has the order of arguments, maps causes to
// statuses in one table (ND specification 2.4), and either waits for what is pending or calls back.
package verbs
