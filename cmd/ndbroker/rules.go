package main

import (
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"

	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/internal/broker"
)

// comment is a comment in the file of --allow-from. A # that does not follow a space may be part of a cgroup's name.
var comment = regexp.MustCompile(`(^|\s)#.*`)

// policy returns the rules of the command line and of the file.
func (f *flags) policy() (p broker.Policy, err error) {
	add := func(flag, rule string) {
		if failed := p.Add(rule); failed != nil && err == nil {
			err = cli.Usagef("--allow-%s: %v", flag, failed)
		}
	}
	for _, uid := range f.allowUIDs {
		add("uid", fmt.Sprintf("uid %d", uid))
	}
	for _, gid := range f.allowGIDs {
		add("gid", fmt.Sprintf("gid %d", gid))
	}
	for _, cgroup := range f.allowCgroups {
		add("cgroup", "cgroup "+cgroup)
	}
	if err != nil || f.allowFrom == "" {
		return p, err
	}
	text, err := os.ReadFile(f.allowFrom)
	if err != nil {
		return p, fmt.Errorf("--allow-from: %w", err)
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		rule := strings.TrimSpace(comment.ReplaceAllString(line, ""))
		if rule == "" {
			continue
		}
		if err := p.Add(rule); err != nil {
			return p, fmt.Errorf("--allow-from %s: line %d: %w", f.allowFrom, number, err)
		}
	}
	return p, nil
}

// reloadRules sets the rules of s anew at each SIGHUP, until stop is called. An invalid file changes nothing.
func (f *flags) reloadRules(s *broker.Server, now broker.Policy) (stop func()) {
	asked, ended := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(asked, syscall.SIGHUP)
	go func() {
		defer close(ended)
		for range asked {
			p, err := f.policy()
			if err != nil {
				s.Say(fmt.Sprintf("still for %v: %v", &now, err))
				continue
			}
			now = p
			s.SetAllow(now)
			s.Say(fmt.Sprintf("now for %v", &now))
		}
	}()
	return func() {
		signal.Stop(asked)
		close(asked)
		<-ended
	}
}
