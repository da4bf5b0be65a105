// Package sim runs fleets of engines over a seeded, hostile network and checks what applications saw.
//
// Everything is drawn from one seed: the network's faults, the applications' requests, their pauses and their buffers.
// Two runs with one seed do the same in the same order, so a failure is replayed by its seed alone.
package sim
