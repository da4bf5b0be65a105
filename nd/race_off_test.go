//go:build !race

package nd

const raceEnabled = false
