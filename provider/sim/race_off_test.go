//go:build !race

package sim_test

// About ten seconds.
const defaultSeeds = 200
