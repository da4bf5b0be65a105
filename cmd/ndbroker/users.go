package main

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/ndxdp/ndxdp/internal/broker"
	"github.com/ndxdp/ndxdp/internal/cli"
)

// users are those that may ask: of the command line, and of the file as it is now.
func (f *flags) users() (allow []uint32, err error) {
	for _, uid := range f.allow {
		if uint(uint32(uid)) != uid {
			return nil, cli.Usagef("--allow-uid %d is no user", uid)
		}
		allow = append(allow, uint32(uid))
	}
	if f.allowFrom == "" {
		return allow, nil
	}
	text, err := os.ReadFile(f.allowFrom)
	if err != nil {
		return nil, fmt.Errorf("--allow-from: %w", err)
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		uid, err := strconv.ParseUint(line, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("--allow-from %s: line %d: %q is no user: write a number", f.allowFrom, number, line)
		}
		allow = append(allow, uint32(uid))
	}
	return allow, nil
}

// reloadUsers has s let other users ask at each SIGHUP, until stop is called. A file that cannot be understood changes nothing.
func (f *flags) reloadUsers(s *broker.Server, now []uint32) (stop func()) {
	asked, ended := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(asked, syscall.SIGHUP)
	go func() {
		defer close(ended)
		for range asked {
			allow, err := f.users()
			if err != nil {
				s.Say(fmt.Sprintf("still for users %v: %v", now, err))
				continue
			}
			if !slices.Equal(allow, now) {
				now = allow
				s.SetAllow(now)
			}
			s.Say(fmt.Sprintf("now for users %v", now))
		}
	}()
	return func() {
		signal.Stop(asked)
		close(asked)
		<-ended
	}
}
