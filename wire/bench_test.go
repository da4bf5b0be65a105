package wire

import (
	"fmt"
	"testing"
)

func BenchmarkPut(b *testing.B) {
	out := make([]byte, 64)
	f := BaseFields{Operations: true, Flags: FlagAckReq, Number: 9, Message: 5, ConnID: 7}
	op := Op{Opcode: OpWrite, Flags: OpLast, Length: 8, Address: 1 << 40, Token: 3, Total: 8}
	b.ReportAllocs()
	for b.Loop() {
		PutBaseHeader(out, &f)
		PutOp(out[BaseHeaderLen:], &op)
	}
}

func BenchmarkParse(b *testing.B) {
	packet := packetNamed("write")
	var op Op
	b.ReportAllocs()
	for b.Loop() {
		h, r := ParseBaseHeader(packet)
		if r != DropNone {
			b.Fatal(r)
		}
		if _, r := ParseOp(packet[BaseHeaderLen:], h.Space(), &op); r != DropNone {
			b.Fatal(r)
		}
	}
}

func BenchmarkParseFrame(b *testing.B) {
	for _, name := range []string{"frame_ipv4", "frame_ipv6"} {
		b.Run(name, func(b *testing.B) {
			frame := frameCases()[name]
			var f Frame
			b.ReportAllocs()
			for b.Loop() {
				if r := ParseFrame(frame, len(frame), &f); r != DropNone {
					b.Fatal(r)
				}
			}
		})
	}
}

func BenchmarkParseAck(b *testing.B) {
	a := testAck()
	body := a.Append(nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, r := ParseAck(body, &a); r != DropNone {
			b.Fatal(r)
		}
	}
}

func BenchmarkTemplatePut(b *testing.B) {
	out := make([]byte, 128)
	t := NewFrameTemplate(testMACs[0], testMACs[1], testSrc, testDst)
	b.ReportAllocs()
	for b.Loop() {
		t.Put(out, 1408, ECT0)
	}
}

func BenchmarkSumFirst(b *testing.B) {
	benchSizes(b, func(p []byte) { sink += SumFirst(1<<40, 1<<20, p) })
}

func BenchmarkPartialSum(b *testing.B) {
	benchSizes(b, func(p []byte) { sink += PartialSum(0, p) })
}

func benchSizes(b *testing.B, f func([]byte)) {
	for _, n := range []int{64, 1408, 8192, 65000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := make([]byte, n)
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				f(p)
			}
		})
	}
}
