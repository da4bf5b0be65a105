//go:build race

package sim_test

// A simulation is one goroutine: there is nothing to race, and the detector makes it fifteen times slower.
const defaultSeeds = 10
