package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
)

// program is one case: a program with one amount of work.
type program struct {
	name string
	// serve starts what the server's process does.
	serve func(n *network) (*service, error)
	// connect starts what the client's process does.
	connect func(ctx context.Context, n *network) (*load, error)
	// idle is how many connections the case opens and leaves alone, 0 for a case with operations.
	idle int
}

// service is a program in the server's process.
type service struct {
	// stop ends the program, and says if it noticed that something was wrong.
	stop func() error
}

// load is a program in the client's process.
type load struct {
	// calls do and verify one operation each. Each is called by one goroutine, all at the same time.
	calls []func() error
	// close closes all connections.
	close func() error
	// opened is how many connections a second were opened, of a case with idle connections.
	opened float64
}

// cases returns all cases, in the order in which they run and are printed.
func cases() []program {
	return slices.Concat(httpCases(), http2Cases(), proxyCases(), churnCases(), fasthttpCases(), netrpcCases(), redisCases(), grpcCases(),
		raftCases(), gorillaCases(), coderCases(), natsCases(), sshCases(), sftpCases(), idleCases())
}

// chosen returns the cases whose names match.
func chosen(names *regexp.Regexp) []program {
	return slices.DeleteFunc(cases(), func(p program) bool { return !names.MatchString(p.name) })
}

// named is the case with this name.
func named(name string) (program, error) {
	all := cases()
	i := slices.IndexFunc(all, func(p program) bool { return p.name == name })
	if i < 0 {
		return program{}, fmt.Errorf("no case is called %q", name)
	}
	return all[i], nil
}

// each is one call for each of n callers.
func each(n int, call func(caller int) func() error) []func() error {
	calls := make([]func() error, n)
	for i := range calls {
		calls[i] = call(i)
	}
	return calls
}
