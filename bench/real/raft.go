package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// The cluster has two members, with the leader in the client's process. It commits an entry only if the follower has it.
const (
	leaderID   = "leader"
	followerID = "follower"

	electionTime  = 300 * time.Millisecond // of a leader; shorter than the default of a second, because the test waits for it
	electionLimit = 10 * time.Second
	applyLimit    = 10 * time.Second
	poolSize      = 3
	// Snapshots are frequent, so that entries of 256 KiB do not fill the memory.
	keptEntries    = 256
	snapshotTime   = 50 * time.Millisecond
	mediumEntry    = 256 * kib
	raftIOLimit    = 10 * time.Second
	followerSlowBy = 20 // factor by which the follower's election timeout exceeds the leader's
)

func raftCases() []program {
	var out []program
	for _, r := range []struct {
		name          string
		callers, size int
	}{
		{"raft-64B-1", 1, small},
		{"raft-64B-16", 16, small},
		{"raft-64B-128", 128, small},
		{"raft-256KiB-1", 1, mediumEntry},
		{"raft-256KiB-16", 16, mediumEntry},
	} {
		out = append(out, program{
			name: r.name,
			serve: func(n *network) (*service, error) {
				member, err := newMember(n, followerID, r.size, electionTime*followerSlowBy)
				if err != nil {
					return nil, err
				}
				return &service{stop: member.stop}, nil
			},
			connect: func(_ context.Context, n *network) (*load, error) { return lead(n, r.callers, r.size) },
		})
	}
	return out
}

// member is one member of the cluster and its state machine, which verifies entries and counts them.
type member struct {
	size  int
	count atomic.Uint64
	wrong atomic.Pointer[error]
	raft  *raft.Raft
	wires *raft.NetworkTransport
	logs  *raft.InmemStore
}

// stream provides connections for raft's own transport.
type stream struct {
	net.Listener
	n *network
}

func (s stream) Dial(_ raft.ServerAddress, patience time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return s.n.dialPeer(ctx)
}

func newMember(n *network, id raft.ServerID, size int, patience time.Duration) (*member, error) {
	l, err := n.listen()
	if err != nil {
		return nil, err
	}
	m := &member{size: size, logs: raft.NewInmemStore()}
	m.wires = raft.NewNetworkTransport(stream{l, n}, poolSize, raftIOLimit, io.Discard)
	config := raft.DefaultConfig()
	config.LocalID, config.LogOutput = id, io.Discard
	config.HeartbeatTimeout, config.ElectionTimeout, config.LeaderLeaseTimeout = patience, patience, min(patience, config.LeaderLeaseTimeout)
	config.TrailingLogs, config.SnapshotThreshold, config.SnapshotInterval = keptEntries, keptEntries, snapshotTime
	m.raft, err = raft.NewRaft(config, m, m.logs, m.logs, raft.NewInmemSnapshotStore(), m.wires)
	if err != nil {
		return nil, errors.Join(err, m.wires.Close())
	}
	return m, nil
}

// stop also reports a wrong entry.
func (m *member) stop() error {
	err := errors.Join(m.raft.Shutdown().Error(), m.wires.Close())
	if wrong := m.wrong.Load(); wrong != nil {
		err = errors.Join(*wrong, err)
	}
	return err
}

// Apply verifies an entry and returns the error, which the leader's callers receive.
func (m *member) Apply(entry *raft.Log) any {
	if err := stamped(entry.Data, m.size, 0); err != nil {
		m.wrong.Store(&err)
		return err
	}
	m.count.Add(1)
	return nil
}

// Snapshot returns the number of entries.
func (m *member) Snapshot() (raft.FSMSnapshot, error) { return snapshot(m.count.Load()), nil }

// Restore reads a snapshot.
func (m *member) Restore(from io.ReadCloser) error {
	defer from.Close()
	var n uint64
	_, err := fmt.Fscan(from, &n)
	m.count.Store(n)
	return err
}

type snapshot uint64

func (s snapshot) Persist(sink raft.SnapshotSink) error {
	if _, err := fmt.Fprint(sink, uint64(s)); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

func (snapshot) Release() {}

// lead makes the cluster and becomes its leader.
func lead(n *network, callers, size int) (*load, error) {
	m, err := newMember(n, leaderID, size, electionTime)
	if err != nil {
		return nil, err
	}
	all := raft.Configuration{Servers: []raft.Server{
		{ID: leaderID, Address: raft.ServerAddress(n.here())},
		{ID: followerID, Address: raft.ServerAddress(n.there())},
	}}
	if err := m.raft.BootstrapCluster(all).Error(); err != nil {
		return nil, errors.Join(err, m.stop())
	}
	timer := time.NewTimer(electionLimit)
	defer timer.Stop()
	for leads := false; !leads; {
		select {
		case leads = <-m.raft.LeaderCh():
		case <-timer.C:
			return nil, errors.Join(fmt.Errorf("raft has no leader after %v", electionLimit), m.stop())
		}
	}
	return &load{
		close: m.stop,
		calls: each(callers, func(int) func() error {
			entry := content(size, 0)
			return func() error {
				applied := m.raft.Apply(entry, applyLimit)
				if err := applied.Error(); err != nil {
					return err
				}
				if err, failed := applied.Response().(error); failed {
					return err
				}
				return nil
			}
		}),
	}, nil
}
