// Package ndk is the ND API in the shape of NDKPI, the kernel's interface: a request returns a Status, and calls back later if that is
// StatusPending. It is a sibling of package nd on the same engine (internal/verbs). Neither wraps the other, and peers cannot tell
// them apart.
//
// # The contract
//
// If a function with a completion callback returns StatusPending, the callback runs exactly once. If it returns another status, the
// callback never runs. Functions that need no peer (Create…, Register, Deregister, Resize, Modify, Listen) accept a nil callback: they
// then finish before they return, and a Create returns the object. With a callback they return StatusPending and deliver the object
// only through it. Functions that need the peer (Connect, CompleteConnect, Accept, Disconnect) require a callback.
//
// All callbacks of an adapter run on one goroutine, in the order in which they became due, never with a lock held. A callback may
// call the API, and may close its own object. A callback that blocks delays all others. No call blocks except Adapter.Close, which
// must not be called from a callback. Adapter.WaitsFor says what Adapter.Close waits for.
//
// Close never fails. It cancels pending requests. It is over when every callback of the object has returned and every successor of
// the object is closed. Successors stand on the right:
//
//	Adapter -> Connector, CQ, Listener, PD, SharedEndpoint      PD -> MR, MW, QP, SRQ      CQ, SRQ -> QP
//	MR -> MW bound to it      QP, SharedEndpoint -> Connector from Connect or Accept on      Listener -> Connector from its event
//
// The application serializes posts to the initiator queue of a queue pair, to its receive queue and to a shared receive queue. It also
// serializes GetResults and Arm of one completion queue. All calls are safe without this, too. The application does not use an object
// after closing it.
//
// A nil object is refused with StatusInvalidParameter. So is a nil callback of Connect, CompleteConnect, Accept, Disconnect, and a nil
// event of CreateListener. Other events and notifications may be nil.
//
// # Mapping
//
//	NDKPI                                     here
//	open, close adapter handlers              OpenAdapter, Adapter.Close
//	NdkQueryAdapterInfo                       Adapter.QueryInfo
//	NdkCreateCq, Pd, Connector, Listener,     Adapter.CreateCQ, CreatePD, CreateConnector, CreateListener,
//	  SharedEndpoint                            CreateSharedEndpoint
//	NdkCreateMr, Mw, Srq, Qp, QpWithSrq       PD.CreateMR, CreateMW, CreateSRQ, CreateQP, CreateQPWithSRQ
//	NdkResizeCq, NdkArmCq                     CQ.Resize, CQ.Arm
//	NdkGetCqResults, NdkGetCqResultsEx        CQ.GetResults, CQ.GetResultsEx
//	NdkControlCqInterruptModeration           CQ.ControlInterruptModeration
//	NdkRegisterMr, NdkDeregisterMr            MR.Register, MR.Deregister
//	NdkInitializeFastRegisterMr               MR.InitializeFastRegister
//	NdkFastRegister                           QP.FastRegister
//	NdkBuildLam, NdkReleaseLam                Adapter.BuildLAM, Adapter.ReleaseLAM
//	NdkGetPrivilegedMemoryRegionToken         PD.PrivilegedToken
//	NdkGetLocalTokenFromMr, …Remote…          MR.LocalToken, MR.RemoteToken, MW.RemoteToken
//	NdkModifySrq, NdkSrqReceive               SRQ.Modify, SRQ.Receive
//	NdkSend, Receive, Read, Write, Bind,      QP.Send, Receive, Read, Write, Bind,
//	  Invalidate, SendAndInvalidate, Flush      Invalidate, SendAndInvalidate, Flush
//	NdkConnect, NdkConnectWithSharedEndpoint  Connector.Connect, ConnectWithSharedEndpoint
//	NdkCompleteConnect(Ex), NdkAccept(Ex)     Connector.CompleteConnect(Ex), Accept(Ex)
//	NdkReject, NdkDisconnect                  Connector.Reject, Disconnect
//	NdkGetConnectionData                      Connector.ConnectionData
//	Ndk…LocalAddress, Ndk…PeerAddress         LocalAddress, PeerAddress
//	NdkListen, NdkControlConnectEvents        Listener.Listen, ControlConnectEvents
//	NdkCloseObject                            Close of each object
//
// # Deliberate differences
//
//   - Memory is a slice, not a memory descriptor list. Peers use the address MR.Address plus an offset, which is not an address of this
//     process.
//   - A logical address mapping covers one slice. Its pages count from the slice's first byte, so the first byte offset is 0. A fast
//     registration takes pages of one mapping in its order. The privileged token is for slices of mappings.
//   - Nothing names physical pages. Register pins no memory: it checks that the memory may be read and, if the flags ask for it, written.
//   - A fast registration serves the queue pair on which it was posted and its peer. It ends with this queue pair or the mapping. Each
//     registration has a new local token, too.
//   - AdapterLoopbackConnections is set, except for a lease of a broker, as in package nd.
//   - There is no extension interface and no dispatch table to replace.
//   - Addresses and infos are values, so no buffer can be too small for them.
//   - Notifications, connect events and disconnect events that are due when their object is closed are not delivered.
//   - The threshold of CreateSRQ takes effect once that many receives are posted, because a new pool is always below it.
//   - The Status of a call carries no addresses; OpenAdapter returns an error that says why.
//   - NotifyType and MRFlags have the numbers of package nd. OpFlags differ, because the headers assign them other bits.
package ndk
