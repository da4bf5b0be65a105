//go:build race

package nd

const raceEnabled = true
