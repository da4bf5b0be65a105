// Package sim runs engines over a seeded, hostile network on virtual time, and checks what applications see.
//
// Everything is drawn from one seed: network faults, requests, pauses and buffers. Two runs with one seed do the same in the same
// order, so a seed replays a failure.
package sim
