package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
)

// program is one case: a program with a given workload.
type program struct {
	name string
	// serve starts the server's side.
	serve func(n *network) (*service, error)
	// connect starts the client's side.
	connect func(ctx context.Context, n *network) (*load, error)
	// idle is the number of idle connections, or 0 for a case with operations.
	idle int
}

// service is the running server's side.
type service struct {
	// stop ends the program, and returns an error that it detected.
	stop func() error
}

// load is the running client's side.
type load struct {
	// Each of calls performs and verifies one operation. Each is called by one goroutine, all concurrently.
	calls []func() error
	// close closes all connections.
	close func() error
	// opened is the number of connections opened per second, in a case with idle connections.
	opened float64
}

// cases returns all cases, in the order of runs and of tables.
func cases() []program {
	return slices.Concat(httpCases(), http2Cases(), proxyCases(), churnCases(), fasthttpCases(), netrpcCases(), redisCases(), grpcCases(),
		raftCases(), gorillaCases(), coderCases(), natsCases(), sshCases(), sftpCases(), idleCases())
}

// chosen returns the cases whose names match.
func chosen(names *regexp.Regexp) []program {
	return slices.DeleteFunc(cases(), func(p program) bool { return !names.MatchString(p.name) })
}

// named returns the case with this name.
func named(name string) (program, error) {
	all := cases()
	i := slices.IndexFunc(all, func(p program) bool { return p.name == name })
	if i < 0 {
		return program{}, fmt.Errorf("no case is called %q", name)
	}
	return all[i], nil
}

// each returns one call for each of n callers.
func each(n int, call func(caller int) func() error) []func() error {
	calls := make([]func() error, n)
	for i := range calls {
		calls[i] = call(i)
	}
	return calls
}
