package bpf

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrHeld is wrapped by the error of Attach if the interface already has an XDP program.
var ErrHeld = errors.New("another XDP program is attached")

// HeldError names the program that an interface already has. Only the interface, the mode and the program id are always
// known.
type HeldError struct {
	Interface   string
	Mode        Mode   // mode that Attach requested
	HolderMode  string // mode of the attached program: generic, native or offload
	ProgramID   uint32
	ProgramName string // empty if the kernel does not tell
	Ours        bool   // the program is an nd_steer, attached by another Steering or process
	LinkID      uint32 // zero if it was attached without a bpf_link
	PID         int    // a process that holds the link or the program; zero if none was found
	Comm        string // the name of that process
}

// Error names the holder and a remedy.
func (e *HeldError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "bpf: attach to %s in %s mode: %v: program %d", e.Interface, e.Mode, ErrHeld, e.ProgramID)
	if e.ProgramName != "" {
		fmt.Fprintf(&b, " %q", e.ProgramName)
	}
	fmt.Fprintf(&b, " in %s mode", e.HolderMode)
	if e.LinkID != 0 {
		fmt.Fprintf(&b, " by link %d", e.LinkID)
	}
	if e.PID != 0 {
		fmt.Fprintf(&b, ", held by process %d (%s)", e.PID, e.Comm)
	}
	switch {
	case e.Ours:
		b.WriteString("; it is ours, and one process per interface has AF_XDP: stop the other one, or use plain sockets")
	default:
		fmt.Fprintf(&b, "; if nobody needs it: %s; else use plain sockets or another interface", e.Remedy())
	}
	return b.String()
}

// Remedy returns the command that detaches the program from the interface. A program that was attached without a bpf_link stays when its
// process ends. The command names the mode, because without it ip link detaches only native programs.
func (e *HeldError) Remedy() string {
	switch {
	case e.LinkID == 0:
		word, ok := map[string]string{"generic": "xdpgeneric", "offload": "xdpoffload"}[e.HolderMode]
		if !ok {
			word = "xdpdrv"
		}
		return fmt.Sprintf("ip link set dev %s %s off", e.Interface, word)
	case e.PID != 0:
		return fmt.Sprintf("kill %d", e.PID)
	default:
		return fmt.Sprintf("bpftool link detach id %d", e.LinkID)
	}
}

// Unwrap returns ErrHeld.
func (e *HeldError) Unwrap() error { return ErrHeld }

// AttachError has the step of Attach that failed, its interface, the cause and a remedy. If the verifier refused the program, %+v prints
// the whole log of the verifier at the end.
type AttachError struct {
	Config Config
	Op     string // query, load, attach or inspect
	Err    error
	Remedy string // empty if the cause says it all
}

// Error returns one line.
func (e *AttachError) Error() string {
	text := e.prefix() + e.Err.Error()
	if e.Remedy != "" {
		text += " (" + e.Remedy + ")"
	}
	return text
}

// Unwrap returns the cause.
func (e *AttachError) Unwrap() error { return e.Err }

// Format implements fmt.Formatter.
func (e *AttachError) Format(f fmt.State, verb rune) {
	_, _ = io.WriteString(f, e.Error()) // fmt.State ignores errors of Format
	if verb == 'v' && f.Flag('+') {
		var verifier interface {
			error
			fmt.Formatter
		}
		if errors.As(e.Err, &verifier) {
			_, _ = fmt.Fprintf(f, "\n%+v", verifier)
		}
	}
}

func (e *AttachError) prefix() string {
	return fmt.Sprintf("bpf: %s program for %s in %s mode: ", e.Op, e.Config.Interface, e.Config.Mode)
}
