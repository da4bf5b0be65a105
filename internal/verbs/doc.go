// Package verbs is the common part of packages nd and nd/ndk. It has the opened adapter with its device, its engines, the shards that run
// them and its memory. It defines what each call on an object of the adapter does, and in which order it checks its arguments. It returns
// causes (provider.Outcome) and knows no status codes.
//
// Packages nd and ndk are surfaces of it. A surface orders the arguments, maps causes to statuses in one table (ND specification 2.4), and
// either waits for pending requests or calls back.
package verbs
