package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab"
)

// Time after which a step of a process counts as hung. Opening an AF_XDP socket on a queue that was just closed may take two
// seconds; the rest allows for a busy machine.
const (
	setupTimeout = 20 * time.Second
	perIdle      = 5 * time.Millisecond // for each connection of a case with idle connections
	stepTimeout  = 15 * time.Second     // in addition to the duration
	endTimeout   = 10 * time.Second
)

// side is the process of an agent.
type side struct {
	name    string
	cmd     *exec.Cmd
	input   io.WriteCloser
	pipe    *os.File
	replies *json.Decoder
	said    *tail
	ended   bool
}

// startSide starts an agent in a namespace. The process ends with ctx.
func startSide(ctx context.Context, n *netlab.Namespace, t task) (*side, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	argument, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer write.Close()
	s := &side{name: t.Side, pipe: read, replies: json.NewDecoder(read), said: &tail{}}
	s.cmd = exec.CommandContext(ctx, self, agentCommand, string(argument))
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.ExtraFiles = s.said, s.said, []*os.File{write}
	s.cmd.WaitDelay = endTimeout
	if s.input, err = s.cmd.StdinPipe(); err != nil {
		return nil, errors.Join(err, read.Close())
	}
	if err := n.StartProcess(s.cmd); err != nil {
		return nil, errors.Join(err, read.Close())
	}
	return s, nil
}

// ask writes a request and returns the reply.
func (s *side) ask(what string, patience time.Duration) (reply, error) {
	if _, err := fmt.Fprintln(s.input, what); err != nil {
		return reply{}, s.failed(what, err)
	}
	return s.await(what, patience)
}

// await returns the next reply.
func (s *side) await(what string, patience time.Duration) (reply, error) {
	var r reply
	if err := s.pipe.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return r, s.failed(what, err)
	}
	err := s.replies.Decode(&r)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return r, s.failed(what, fmt.Errorf("the process did not answer within %v", patience))
	case err != nil:
		return r, s.failed(what, err)
	case r.Error != "":
		return r, s.failed(what, errors.New(r.Error))
	}
	return r, nil
}

// failed ends the process and returns its last output as an error.
func (s *side) failed(what string, err error) error {
	s.kill()
	err = fmt.Errorf("%s, %s: %w", s.name, what, err)
	if said := strings.TrimSpace(string(s.said.text)); said != "" && !strings.Contains(err.Error(), said) {
		err = fmt.Errorf("%w\n%s", err, said)
	}
	return err
}

// finish asks the process to end, and waits for its end.
func (s *side) finish(patience time.Duration) error {
	if s.ended {
		return nil
	}
	_ = s.input.Close() // the end of the process is detected below
	timer := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
	err := s.cmd.Wait()
	s.ended = true
	if !timer.Stop() {
		err = fmt.Errorf("the process did not end within %v", patience)
	}
	if err != nil {
		var r reply
		_ = s.pipe.SetReadDeadline(time.Now()) // the reason, if any, has arrived
		if s.replies.Decode(&r) == nil && r.Error != "" {
			err = errors.New(r.Error)
		}
		err = s.failed("end", err)
	}
	return errors.Join(err, s.pipe.Close())
}

// kill ends the process at once.
func (s *side) kill() {
	if s.ended {
		return
	}
	s.ended = true
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait() // it was killed, or has reported its error
	_ = s.pipe.Close()
}
