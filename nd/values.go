package nd

import (
	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// The exported constants are written as numbers, so that go doc shows them. This does not compile unless they equal the inner constants: the
// only index of an array of length 1 is 0.
var _ = []int{
	[1]int{}[DatapathAuto-Datapath(plan.Auto)], [1]int{}[DatapathGeneric-Datapath(plan.Generic)],
	[1]int{}[DatapathNative-Datapath(plan.Native)], [1]int{}[DatapathUDP-Datapath(plan.UDP)],
	[1]int{}[DatapathRing-Datapath(plan.Ring)], [1]int{}[DatapathTCX-Datapath(plan.TCX)],

	[1]int{}[BulkAuto-BulkLane(plan.BulkAuto)], [1]int{}[BulkOff-BulkLane(plan.BulkOff)], [1]int{}[BulkOnly-BulkLane(plan.BulkOnly)],

	[1]int{}[CausePeerDisconnected-Cause(provider.CausePeerDisconnected)],
	[1]int{}[CausePeerGone-Cause(provider.CausePeerGone)],
	[1]int{}[CauseRefusedThere-Cause(provider.CauseRefusedThere)],
	[1]int{}[CauseRefusedHere-Cause(provider.CauseRefusedHere)],
	[1]int{}[CauseLocalMemory-Cause(provider.CauseLocalMemory)],
	[1]int{}[CauseLocalRight-Cause(provider.CauseLocalRight)],
	[1]int{}[CauseLocalRequest-Cause(provider.CauseLocalRequest)],
	[1]int{}[CauseNoReceive-Cause(provider.CauseNoReceive)],
	[1]int{}[CausePeerFailed-Cause(provider.CausePeerFailed)],
	[1]int{}[CauseOverrun-Cause(provider.CauseOverrun)],
	[1]int{}[CauseProtocol-Cause(provider.CauseProtocol)],
	[1]int{}[CauseOwn-Cause(provider.NumCauses)],

	[1]int{}[RequestReceive-RequestType(provider.KindReceive)],
	[1]int{}[RequestSend-RequestType(provider.KindSend)],
	[1]int{}[RequestBind-RequestType(provider.KindBind)],
	[1]int{}[RequestInvalidate-RequestType(provider.KindInvalidate)],
	[1]int{}[RequestRead-RequestType(provider.KindRead)],
	[1]int{}[RequestWrite-RequestType(provider.KindWrite)],

	[1]int{}[DefaultUDPPort-verbs.DefaultUDPPort], [1]int{}[MaxGreeting-(provider.MaxPrivateData-introLen)],
}
