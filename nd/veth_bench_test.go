package nd

import (
	"testing"
)

// BenchmarkVethWriteLatency is a ping-pong of 64-byte Writes between two polling adapters of this process. Half of the reported
// time is one way.
func BenchmarkVethWriteLatency(b *testing.B) {
	r := newRig(b, 1500, DatapathGeneric)
	client, server := r.connect(b, 4096)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := server.mr.Bytes()
		var res [8]Result
		want := byte(1)
		for {
			for buf[63] != want {
				select {
				case <-stop:
					return
				default:
				}
				server.cq.GetResults(res[:])
			}
			buf[1024+63] = want
			if err := server.qp.Write(0, []SGE{server.mr.SGE(1024, 64)}, client.mr.Address(), client.mr.RemoteToken(), OpSilentSuccess); err != nil {
				b.Error(err)
				return
			}
			want++
		}
	}()
	buf := client.mr.Bytes()
	var res [8]Result
	want := byte(1)
	b.ReportAllocs()
	for b.Loop() {
		buf[1024+63] = want
		if err := client.qp.Write(0, []SGE{client.mr.SGE(1024, 64)}, server.mr.Address(), server.mr.RemoteToken(), OpSilentSuccess); err != nil {
			b.Fatal(err)
		}
		for buf[63] != want {
			client.cq.GetResults(res[:])
		}
		want++
	}
	close(stop)
	<-done
}

// BenchmarkVethSendLatency is a ping-pong of 64-byte Sends between two polling adapters of this process.
func BenchmarkVethSendLatency(b *testing.B) {
	r := newRig(b, 1500, DatapathGeneric)
	client, server := r.connect(b, 4096)
	const depth = 32
	for _, e := range []*end{client, server} {
		for range depth {
			if err := e.qp.Receive(0, []SGE{e.mr.SGE(0, 64)}); err != nil {
				b.Fatal(err)
			}
		}
	}
	// wait polls until a message has arrived, and posts its receive again.
	wait := func(e *end, stop <-chan struct{}) bool {
		var res [8]Result
		for {
			for _, r := range res[:e.cq.GetResults(res[:])] {
				if r.Type == RequestReceive {
					return e.qp.Receive(0, []SGE{e.mr.SGE(0, 64)}) == nil
				}
			}
			select {
			case <-stop:
				return false
			default:
			}
		}
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for wait(server, stop) {
			if err := server.qp.Send(0, []SGE{server.mr.SGE(64, 64)}, 0); err != nil {
				b.Error(err)
			}
		}
	}()
	b.ReportAllocs()
	for b.Loop() {
		if err := client.qp.Send(0, []SGE{client.mr.SGE(64, 64)}, 0); err != nil {
			b.Fatal(err)
		}
		wait(client, stop)
	}
	close(stop)
	<-done
}

// BenchmarkVethWriteRate posts 64-byte Writes in lists of 32, of which only the last has a result. Both sides poll. One iteration
// is one list.
func BenchmarkVethWriteRate(b *testing.B) {
	r := newRig(b, 1500, DatapathGeneric)
	const list, depth = 32, 512
	client, server := r.connect(b, 1<<16)
	stop, done := make(chan struct{}), make(chan struct{})
	go server.pollUntil(stop, done)
	var res [32]Result
	out := 0
	b.ReportAllocs()
	for b.Loop() {
		for out > depth-list {
			out -= list * client.cq.GetResults(res[:])
		}
		for i := range list {
			flags := OpSilentSuccess | OpDefer
			if i == list-1 {
				flags = 0
			}
			if err := client.qp.Write(0, []SGE{client.mr.SGE(i*64, 64)}, server.mr.Address()+uint64(i*64), server.mr.RemoteToken(), flags); err != nil {
				b.Fatal(err)
			}
		}
		out += list
	}
	for out > 0 {
		out -= list * client.cq.GetResults(res[:])
	}
	close(stop)
	<-done
}

// pollUntil polls for a side whose application does nothing.
func (e *end) pollUntil(stop <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	var res [8]Result
	for {
		select {
		case <-stop:
			return
		default:
			e.cq.GetResults(res[:])
		}
	}
}

// BenchmarkVethWriteBandwidth keeps 16 Writes of 1 MiB outstanding; both sides poll.
func BenchmarkVethWriteBandwidth(b *testing.B) {
	for _, mtu := range []int{1500, 9000, 65000} {
		b.Run(mtuName(mtu), func(b *testing.B) {
			r := newRig(b, mtu, DatapathGeneric)
			const size, depth = 1 << 20, 16
			client, server := r.connect(b, size)
			stop, done := make(chan struct{}), make(chan struct{})
			go server.pollUntil(stop, done)
			var res [8]Result
			out := 0
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				if err := client.qp.Write(0, []SGE{client.mr.SGE(0, size)}, server.mr.Address(), server.mr.RemoteToken(), 0); err != nil {
					b.Fatal(err)
				}
				for out++; out == depth; {
					out -= client.cq.GetResults(res[:])
				}
			}
			for out > 0 {
				out -= client.cq.GetResults(res[:])
			}
			close(stop)
			<-done
		})
	}
}

func mtuName(mtu int) string {
	switch mtu {
	case 1500:
		return "mtu=1500"
	case 9000:
		return "mtu=9000"
	}
	return "mtu=65000"
}
