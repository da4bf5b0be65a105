package sharing

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/ndxdp/ndxdp/internal/ports"
	"github.com/ndxdp/ndxdp/internal/udp"
)

// This file handles programs that hold the name of the well-known port, or the port, and are no adapters of this user. A name is not a
// port, and any user may take a name. So an adapter trusts a name only while a process receives on the port.

// lookAround finds the process that holds the name of the well-known port. If no process receives on the port, this adapter takes the
// port without the name, and reports the holder of the name.
func (c *Address) lookAround() {
	who, known := ports.HolderOf(c.Network, c.at)
	for began := time.Now(); c.unheld(); time.Sleep(takeOverPause) {
		if c.holding.Try() == nil {
			c.First = true // the last holder has ended meanwhile
			return
		}
		if time.Since(began) > SquatPatience {
			c.First = true
			c.squatted(who, known)
			return
		}
	}
	if known && !who.Trusted() {
		c.note(fmt.Sprintf("requests of peers to UDP port %d of %s come by %s, which has the port", c.at.Port(), c.at.Addr(), who))
	}
}

// squatted notes that the name of the well-known port is taken by a process that does not receive on the port.
func (c *Address) squatted(who ports.Holder, known bool) {
	by := "a socket that does not listen (ss -xap shows whose)"
	if known {
		by = who.String()
	}
	c.note(fmt.Sprintf("the name of UDP port %d of %s is squatted by %s, and no adapter received on the port: end the process, so that other adapters notice when this adapter ends",
		c.at.Port(), c.at.Addr(), by))
}

// note makes Noticed return what, a text about the well-known port or its name.
func (c *Address) note(what string) { c.notice.Store(&what) }

// Noticed returns what the user should know about the well-known port or its name, or an empty string.
func (c *Address) Noticed() string {
	if what := c.notice.Load(); what != nil {
		return *what
	}
	return ""
}

// unheld reports whether no process holds the well-known port now. It binds the port for a moment, and an adapter that wants the port
// meanwhile tries again.
func (c *Address) unheld() bool {
	scope, _ := strconv.Atoi(c.at.Addr().Zone()) // an index, or no zone
	s, err := c.Network.Open(udp.Config{Local: c.at, Scope: scope, Device: c.Device})
	if err != nil {
		return false
	}
	_ = s.Close() // nothing was sent
	return true
}

// await waits until this adapter may take the well-known port, and returns false if the adapter ends before. It may take the port if it has
// the name, or if no adapter received on the port at two checks although another process has the name.
func (c *Address) await() bool {
	ctx, end := context.WithCancel(c.ctx)
	defer end()
	named := make(chan bool, 1)
	go func() { named <- c.holding.Await(ctx) }()
	for free := 0; free < 2; {
		select {
		case got := <-named:
			return got
		case <-time.After(LookAgain):
		}
		free++
		if !c.unheld() {
			free = 0
		}
	}
	end()
	if <-named {
		return true
	}
	c.squatted(ports.HolderOf(c.Network, c.at))
	return c.ctx.Err() == nil
}
