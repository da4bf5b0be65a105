// Package apps runs ordinary programs of package net over ND, through ndnet, and over kernel TCP, so that ndperf can say what a program
// gains or loses that replaces net.Dial and net.Listen. A program knows net.Conn and net.Listener and nothing else of what carries its bytes.
//
// It is a package of its own because of gRPC: nothing but ndperf links that.
package apps
