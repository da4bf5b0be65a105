// Package apps runs ordinary programs of package net over ND, through ndnet, and over kernel TCP. So ndperf can measure what a
// program gains or loses if it replaces net.Dial and net.Listen. The programs only use net.Conn and net.Listener.
//
// It is a separate package so that only ndperf links gRPC.
package apps
