//go:build race

package ndnet

const raceEnabled = true
