// Package ndk is the ND API in the shape of NDKPI, the kernel's: requests return a Status, and call back when that is
// StatusPending. It is a sibling of package nd on the same engine (internal/verbs); neither wraps the other, and peers cannot tell
// them apart.
//
// # The contract
//
// A function with a completion callback returns StatusPending, and then the callback runs exactly once, or any other status,
// and then it never runs. Functions that need no peer (Create…, Register, Deregister, Resize, Modify, Listen) take nil for
// the callback: they finish before they return, and a Create returns the object. With a callback they return StatusPending and
// deliver only through it. Functions that need the peer (Connect, CompleteConnect, Accept, Disconnect) want one.
//
// All callbacks of an adapter run on one goroutine, in the order in which they became due, never with a lock held. They may call
// the API, and close the object whose callback they are. A callback that blocks keeps the others waiting; only
// Adapter.Close must not be called from one. No call blocks but Adapter.Close, and Adapter.WaitsFor tells what that waits for.
//
// Close never fails. It starts whatever cancelling is needed, and is over when every callback of the object has returned and
// every object that depends on it is closed. Those are, left before right:
//
//	Adapter -> Connector, CQ, Listener, PD, SharedEndpoint      PD -> MR, MW, QP, SRQ      CQ, SRQ -> QP
//	MR -> MW bound to it      QP, SharedEndpoint -> Connector from Connect or Accept on      Listener -> Connector from its event
//
// The application serializes posts to one queue pair's initiator queue, to its receive queue and to a shared receive queue,
// and calls of GetResults and Arm on one completion queue; everything is safe without that, too. It does not use an object
// once it closes it.
//
// A nil object is refused with StatusInvalidParameter, and so is a nil callback where one is needed: Connect, CompleteConnect, Accept,
// Disconnect, and the event of CreateListener. Other events and notifications may be nil: nobody is told then.
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
//   - Memory is a slice, not a memory descriptor list. The address that peers use is MR.Address plus an offset; it is no address
//     of this process.
//   - A logical address mapping is over one slice, whose pages count from its first byte, so that the first byte offset is 0; a fast
//     registration takes pages of one mapping in its order. The privileged token is for slices of mappings. Nothing names
//     physical pages, and Register pins none: it looks up that the memory may be read and, where the flags say so, written.
//   - A fast registration serves the queue pair on which it was posted and its peer, and ends with that queue pair or the mapping. The
//     local token is a new one each time, too.
//   - AdapterLoopbackConnections is set but on a lease of a broker, as in package nd.
//   - There is no extension interface and no dispatch table to replace.
//   - Addresses and infos are values: nothing can be too small for them.
//   - A notification, a connect event and a disconnect event that are due when their object is closed are not delivered.
//   - The threshold of CreateSRQ arms once as many receives are posted, because a new pool is always below it.
//   - The Status of a call carries no addresses; OpenAdapter returns an error that says why.
//   - NotifyType and MRFlags have the numbers of package nd, OpFlags does not: the headers give them other bits.
package ndk
