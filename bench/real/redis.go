package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/tidwall/redcon"
)

const (
	pipelined   = 100 // commands of a pipeline
	largeObject = mib
	channelName = "news"
)

// redisCase describes a case of redis.
type redisCase struct {
	name    string
	callers int
	call    func(ctx context.Context, c *redis.Client, caller int) (func() error, error)
}

func redisCases() []program {
	var out []program
	for _, r := range []redisCase{
		{"redis-get-64B-1", 1, redisGet(small)},
		{"redis-get-64B-16", 16, redisGet(small)},
		{"redis-get-64B-128", 128, redisGet(small)},
		{"redis-set-64B-16", 16, redisSet(small)},
		{"redis-pipeline-100-1", 1, redisPipeline},
		{"redis-pipeline-100-16", 16, redisPipeline},
		{"redis-get-64KiB-16", 16, redisGet(64 * kib)},
		{"redis-get-1MiB-1", 1, redisGet(largeObject)},
		{"redis-get-1MiB-4", 4, redisGet(largeObject)},
		{"redis-set-1MiB-1", 1, redisSet(largeObject)},
		{"redis-pubsub-1", 1, redisPubSub},
		{"redis-pubsub-16", 16, redisPubSub},
	} {
		out = append(out, program{
			name: r.name, serve: serveRedis,
			connect: func(ctx context.Context, n *network) (*load, error) { return connectRedis(ctx, n, r) },
		})
	}
	return out
}

// store is the server's data.
type store struct {
	mu     sync.RWMutex // guards values
	values map[string][]byte
	pubsub redcon.PubSub
}

func serveRedis(n *network) (*service, error) {
	l, err := n.listen()
	if err != nil {
		return nil, err
	}
	s := &store{values: map[string][]byte{}}
	server := redcon.NewServer(n.here(), s.handle, func(redcon.Conn) bool { return true }, nil)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	return &service{stop: func() error { return errors.Join(server.Close(), <-served) }}, nil
}

func (s *store) handle(c redcon.Conn, cmd redcon.Command) {
	switch name := strings.ToLower(string(cmd.Args[0])); {
	case name == "ping":
		c.WriteString("PONG")
	case name == "set" && len(cmd.Args) == 3:
		value := append([]byte(nil), cmd.Args[2]...)
		s.mu.Lock()
		s.values[string(cmd.Args[1])] = value
		s.mu.Unlock()
		c.WriteString("OK")
	case name == "get" && len(cmd.Args) == 2:
		s.mu.RLock()
		value, ok := s.values[string(cmd.Args[1])]
		s.mu.RUnlock()
		if !ok {
			c.WriteNull()
			return
		}
		c.WriteBulk(value)
	case name == "publish" && len(cmd.Args) == 3:
		c.WriteInt(s.pubsub.Publish(string(cmd.Args[1]), string(cmd.Args[2])))
	case name == "subscribe" && len(cmd.Args) == 2:
		s.pubsub.Subscribe(c, string(cmd.Args[1]))
	default:
		c.WriteError("ERR unknown command '" + name + "'")
	}
}

func connectRedis(ctx context.Context, n *network, r redisCase) (*load, error) {
	client := redis.NewClient(&redis.Options{
		Addr: n.there(), PoolSize: r.callers, Protocol: 2, DisableIdentity: true, // the server supports nothing else
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		Dialer:                   func(ctx context.Context, _, _ string) (net.Conn, error) { return n.dialPeer(ctx) },
	})
	l := &load{close: client.Close}
	for caller := range r.callers {
		call, err := r.call(ctx, client, caller)
		if err != nil {
			return nil, errors.Join(err, client.Close())
		}
		l.calls = append(l.calls, call)
	}
	return l, nil
}

// redisGet gets a value that was set before.
func redisGet(size int) func(context.Context, *redis.Client, int) (func() error, error) {
	return func(ctx context.Context, c *redis.Client, caller int) (func() error, error) {
		key := fmt.Sprintf("key %d", caller)
		if err := c.Set(ctx, key, content(size, uint64(caller)), 0).Err(); err != nil {
			return nil, err
		}
		return func() error {
			got, err := c.Get(ctx, key).Bytes()
			if err != nil {
				return err
			}
			return stamped(got, size, uint64(caller))
		}, nil
	}
}

// redisSet sets a value, and reads it back from time to time.
func redisSet(size int) func(context.Context, *redis.Client, int) (func() error, error) {
	const lookEvery = 100
	return func(ctx context.Context, c *redis.Client, caller int) (func() error, error) {
		key, value, k := fmt.Sprintf("key %d", caller), make([]byte, size), uint64(0)
		return func() error {
			k++
			stamp(value, k)
			if err := c.Set(ctx, key, value, 0).Err(); err != nil || k%lookEvery != 0 {
				return err
			}
			got, err := c.Get(ctx, key).Bytes()
			if err != nil {
				return err
			}
			return stamped(got, size, k)
		}, nil
	}
}

// redisPipeline gets 100 values in one pipeline.
func redisPipeline(ctx context.Context, c *redis.Client, caller int) (func() error, error) {
	key := func(i int) string { return fmt.Sprintf("key %d.%d", caller, i) }
	for i := range pipelined {
		if err := c.Set(ctx, key(i), numbered(caller, i), 0).Err(); err != nil {
			return nil, err
		}
	}
	return func() error {
		p := c.Pipeline()
		var got [pipelined]*redis.StringCmd
		for i := range got {
			got[i] = p.Get(ctx, key(i))
		}
		if _, err := p.Exec(ctx); err != nil {
			return err
		}
		for i, g := range got {
			value, err := g.Bytes()
			if err != nil {
				return err
			}
			if err := equal(value, numbered(caller, i)); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// redisPubSub publishes a message and waits until a subscriber, on another connection, has received it.
func redisPubSub(ctx context.Context, c *redis.Client, caller int) (func() error, error) {
	channel := fmt.Sprintf("%s %d", channelName, caller)
	subscriber := c.Subscribe(ctx, channel)
	if _, err := subscriber.Receive(ctx); err != nil {
		return nil, err
	}
	k := 0
	return func() error {
		k++
		message := numbered(caller, k)
		if err := c.Publish(ctx, channel, message).Err(); err != nil {
			return err
		}
		got, err := subscriber.ReceiveMessage(ctx)
		if err != nil {
			return err
		}
		return equal([]byte(got.Payload), message)
	}, nil
}
