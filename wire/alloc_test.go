package wire

import "testing"

// sink keeps results alive where the compiler would drop the work.
var sink uint32

// TestNoAllocations checks that no path of a packet allocates, including drops.
func TestNoAllocations(t *testing.T) {
	frame := frameCases()["frame_ipv4"]
	frame6 := frameCases()["frame_ipv6"]
	template := NewFrameTemplate(testMACs[0], testMACs[1], testSrc6, testDst6)
	template4 := NewFrameTemplate(testMACs[0], testMACs[1], testSrc, testDst)
	packets := testPackets()
	encoded := make([][]byte, len(packets))
	for i := range packets {
		encoded[i] = packets[i].encode()
	}
	out := make([]byte, 2048)
	fields := BaseFields{Operations: true, Message: 5, Offset: 6}
	var f Frame
	var op Op
	var parsed parsedBodies
	for name, run := range map[string]func(){
		"ParseFrame":      func() { ParseFrame(frame, len(frame), &f); ParseFrame(frame6, len(frame6), &f) },
		"ParseFrame drop": func() { sink += uint32(len(ParseFrame(frame[:20], 20, &f).String())) },
		"template": func() {
			template4.Put(out, 100, ECT0)
			template.Put(out, 100, ECT0)
			template.SetUDPChecksum(out, PartialSum(0, out[62:162]), 100)
		},
		"PutBaseHeader": func() { PutBaseHeader(out, &fields); PutCRC(out, 1) },
		"CRC":           func() { sink += Sum(SumFirst(1<<40, 1<<20, encoded[0]), frame) },
		"SourcePort":    func() { sink += uint32(SourcePort(7)) },
		"parse": func() {
			for _, b := range encoded {
				h, r := ParseBaseHeader(b)
				if r != DropNone {
					t.Fail()
				}
				at, _ := ContentOffset(b)
				rest := b[BaseHeaderLen:]
				if h.Flags()&FlagAck != 0 {
					rest, _ = ParseAck(rest, &parsed.ack)
				}
				if h.Flags()&FlagReport != 0 {
					ParseReport(rest, &parsed.report)
				}
				if h.Control() {
					c, _ := ParseControl(b, at, len(b))
					parsed.parse(&c)
				}
			}
		},
		"operations": func() {
			for i := range packets {
				for j := range packets[i].ops {
					PutOp(out, &packets[i].ops[j])
					if _, d := ParseOp(out, packets[i].space(), &op); d != DropNone {
						t.Fail()
					}
				}
			}
		},
		"append": func() { parsed.append(out[:0]) },
	} {
		if n := testing.AllocsPerRun(100, run); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// parsedBodies has one value of each body, reused as the engine reuses them.
type parsedBodies struct {
	ack    Ack
	report Report
	hello  Hello
	reject Reject
	rtu    RTU
	probe  Probe
	reset  Reset
	shake  Shake
	params Params
	cookie [CookieLen]byte
}

func (p *parsedBodies) parse(c *Control) {
	switch c.Opcode {
	case CtlProbe, CtlProbeAck:
		ParseProbe(c.Body, &p.probe)
	case CtlREQ, CtlREP:
		ParseHello(c.Body, &p.hello)
	case CtlRETRY:
		ParseCookie(c.Body)
	case CtlRTU:
		ParseRTU(c.Body, &p.rtu)
	case CtlREJ:
		ParseReject(c.Body, &p.reject)
	case CtlRST:
		ParseReset(c.Body, &p.reset)
	case CtlSHAKE:
		ParseShake(c.Body, &p.shake)
	}
}

func (p *parsedBodies) append(dst []byte) {
	p.ack.Append(dst)
	p.report.Append(dst)
	p.hello.Append(dst)
	p.reject.Append(dst)
	p.rtu.Append(dst)
	p.probe.Append(dst)
	p.reset.Append(dst)
	p.shake.Append(dst)
	ParseParams(p.params.Append(dst), &p.params)
	AppendCookie(dst, &p.cookie)
	PutControl(dst[:ControlHeaderLen], CtlPing, 0, 4)
}
