package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/crypto/ssh"
)

// Requests that the server supports.
const (
	requestPing = "ping@ndxdp" // a global request, which is sent back
	commandEcho = "echo"       // writes its argument
)

// sshCase describes a case of ssh.
type sshCase struct {
	name    string
	callers int
	call    func(n *network, caller int) (call, stop func() error, err error)
}

func sshCases() []program {
	var out []program
	for _, c := range []sshCase{{"ssh-request-1", 1, sshRequest}, {"ssh-exec-1", 1, sshExec}, {"ssh-handshake-4", 4, sshHandshake}} {
		out = append(out, program{
			name: c.name, serve: serveSSH,
			connect: func(_ context.Context, n *network) (*load, error) {
				l := &load{}
				var stops []func() error
				l.close = func() error {
					for _, stop := range stops {
						_ = stop() // the server may have closed it already
					}
					return nil
				}
				for caller := range c.callers {
					call, stop, err := c.call(n, caller)
					if err != nil {
						return nil, errors.Join(err, l.close())
					}
					l.calls, stops = append(l.calls, call), append(stops, stop)
				}
				return l, nil
			},
		})
	}
	return out
}

func serveSSH(n *network) (*service, error) {
	l, err := n.listen()
	if err != nil {
		return nil, err
	}
	signer, err := ssh.NewSignerFromKey(newKey())
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	config := &ssh.ServerConfig{NoClientAuth: true}
	config.AddHostKey(signer)
	return serveConns(l, func(c net.Conn) error { return serveSession(c, config) }), nil
}

// serveSession serves one connection.
func serveSession(c net.Conn, config *ssh.ServerConfig) error {
	_, channels, requests, err := ssh.NewServerConn(c, config)
	if err != nil {
		return err
	}
	go func() { // ends with the connection
		for r := range requests {
			_ = r.Reply(r.Type == requestPing, r.Payload) // if it fails, the client fails, too
		}
	}()
	wrong := make(chan error, 1)
	for offered := range channels {
		channel, requests, err := offered.Accept()
		if err != nil {
			return err
		}
		go func() {
			if err := serveChannel(channel, requests); errors.Is(err, errWrong) {
				select {
				case wrong <- err:
				default: // one channel is enough
				}
			}
		}()
	}
	select {
	case err := <-wrong:
		return err
	default:
		return nil
	}
}

// serveChannel serves the client's first request on a channel.
func serveChannel(channel ssh.Channel, requests <-chan *ssh.Request) error {
	defer channel.Close()
	for r := range requests {
		var command struct{ Line string }
		switch {
		case r.Type == "exec" && ssh.Unmarshal(r.Payload, &command) == nil:
			go ssh.DiscardRequests(requests)
			_, err := io.WriteString(channel, command.Line)
			_, done := channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{}))
			return errors.Join(r.Reply(true, nil), err, done)
		case r.Type == "subsystem" && ssh.Unmarshal(r.Payload, &command) == nil && command.Line == "sftp":
			go ssh.DiscardRequests(requests)
			return errors.Join(r.Reply(true, nil), serveSFTP(channel))
		default:
			if err := r.Reply(false, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

func dialSSH(n *network) (*ssh.Client, error) {
	conn, err := n.dialPeer(context.Background())
	if err != nil {
		return nil, err
	}
	config := &ssh.ClientConfig{User: "nobody", HostKeyCallback: ssh.InsecureIgnoreHostKey()} // the server generates its key at its start
	c, channels, requests, err := ssh.NewClientConn(conn, n.there(), config)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return ssh.NewClient(c, channels, requests), nil
}

func sshRequest(n *network, caller int) (call, stop func() error, err error) {
	client, err := dialSSH(n)
	if err != nil {
		return nil, nil, err
	}
	k := 0
	return func() error {
		k++
		asked := numbered(caller, k)
		ok, answer, err := client.SendRequest(requestPing, true, asked)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%w: request %d was refused", errWrong, k)
		}
		return equal(answer, asked)
	}, client.Close, nil
}

func sshExec(n *network, caller int) (call, stop func() error, err error) {
	client, err := dialSSH(n)
	if err != nil {
		return nil, nil, err
	}
	k := 0
	return func() error {
		k++
		session, err := client.NewSession()
		if err != nil {
			return err
		}
		defer session.Close()
		line := fmt.Sprintf("%s %d %d", commandEcho, caller, k)
		answer, err := session.Output(line)
		if err != nil {
			return err
		}
		return equal(answer, []byte(line))
	}, client.Close, nil
}

// sshHandshake opens a connection for each operation.
func sshHandshake(n *network, _ int) (call, stop func() error, err error) {
	return func() error {
		client, err := dialSSH(n)
		if err != nil {
			return err
		}
		return client.Close()
	}, func() error { return nil }, nil
}
