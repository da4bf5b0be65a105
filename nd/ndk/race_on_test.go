//go:build race

package ndk

const raceEnabled = true
