// Package nd is the NetworkDirect-style API: adapters, queue pairs, completion queues, memory, connectors, listeners.
//
// Begin with Dial, Listen and Endpoint, which connect two programs and move bytes by blocking calls. An Endpoint consists of queue
// pairs, queues and memory, which programs may also make and use themselves.
//
// # From the ND v2 SPI
//
// The objects are the objects of the SPI in Go form. An overlapped request is an ordinary blocking call with a context. Ending
// the context cancels one request; CancelOverlappedRequests cancels all pending requests of an object. PENDING therefore does
// not exist here. Every status is a Go error (Status) that errors.Is finds.
//
//	NdStartup, NdCleanup                        OpenProvider, Provider.Close
//	NdQueryAddressList                          Provider.QueryAddressList
//	NdResolveAddress                            Provider.SourceAddress
//	NdCheckAddress                              Provider.CheckAddress
//	NdOpenAdapter                               OpenAdapter
//	IND2Provider::QueryAddressList              Provider.QueryAddressList
//	IND2Provider::ResolveAddress                Provider.ResolveAddress
//	IND2Provider::OpenAdapter                   Provider.OpenAdapter, OpenAdapter
//	IND2Adapter::CreateOverlappedFile           none: calls block
//	IND2Adapter::Query                          Adapter.Query
//	IND2Adapter::QueryAddressList               Adapter.QueryAddressList
//	IND2Adapter::CreateCompletionQueue          Adapter.CreateCompletionQueue
//	IND2Adapter::CreateMemoryRegion             Adapter.CreateMemoryRegion, RegisterMemory, AllocateMemory
//	IND2Adapter::CreateMemoryWindow             Adapter.CreateMemoryWindow
//	IND2Adapter::CreateSharedReceiveQueue       Adapter.CreateSharedReceiveQueue
//	IND2Adapter::CreateQueuePair                Adapter.CreateQueuePair
//	IND2Adapter::CreateQueuePairWithSrq         Adapter.CreateQueuePairWithSRQ
//	IND2Adapter::CreateConnector                Adapter.CreateConnector
//	IND2Adapter::CreateListener                 Adapter.CreateListener
//	IND2CompletionQueue::GetNotifyAffinity      CompletionQueue.NotifyAffinity
//	IND2CompletionQueue::Resize                 CompletionQueue.Resize
//	IND2CompletionQueue::Notify                 CompletionQueue.Notify
//	IND2CompletionQueue::GetResults             CompletionQueue.GetResults
//	IND2MemoryRegion::Register                  MemoryRegion.Register
//	IND2MemoryRegion::Deregister                MemoryRegion.Deregister
//	IND2MemoryRegion::GetLocalToken             MemoryRegion.LocalToken
//	IND2MemoryRegion::GetRemoteToken            MemoryRegion.RemoteToken
//	IND2MemoryWindow::GetRemoteToken            MemoryWindow.RemoteToken
//	IND2SharedReceiveQueue::GetNotifyAffinity   SharedReceiveQueue.NotifyAffinity
//	IND2SharedReceiveQueue::Modify              SharedReceiveQueue.Modify
//	IND2SharedReceiveQueue::Notify              SharedReceiveQueue.Notify
//	IND2SharedReceiveQueue::Receive             SharedReceiveQueue.Receive
//	IND2QueuePair::Flush                        QueuePair.Flush
//	IND2QueuePair::Send                         QueuePair.Send
//	IND2QueuePair::Receive                      QueuePair.Receive
//	IND2QueuePair::Bind                         QueuePair.Bind
//	IND2QueuePair::Invalidate                   QueuePair.Invalidate
//	IND2QueuePair::Read                         QueuePair.Read
//	IND2QueuePair::Write                        QueuePair.Write
//	IND2Connector::Bind                         Connector.Bind
//	IND2Connector::Connect                      Connector.Connect
//	IND2Connector::CompleteConnect              Connector.CompleteConnect
//	IND2Connector::Accept                       Connector.Accept
//	IND2Connector::Reject                       Connector.Reject
//	IND2Connector::GetReadLimits                Connector.ReadLimits
//	IND2Connector::GetPrivateData               Connector.GetPrivateData, PrivateData
//	IND2Connector::GetLocalAddress              Connector.LocalAddress
//	IND2Connector::GetPeerAddress               Connector.PeerAddress
//	IND2Connector::NotifyDisconnect             Connector.NotifyDisconnect
//	IND2Connector::Disconnect                   Connector.Disconnect
//	IND2Listener::Bind                          Listener.Bind
//	IND2Listener::Listen                        Listener.Listen
//	IND2Listener::GetLocalAddress               Listener.LocalAddress
//	IND2Listener::GetConnectionRequest          Listener.GetConnectionRequest
//	IND2Overlapped::CancelOverlappedRequests    CancelOverlappedRequests of the same objects
//	IND2Overlapped::GetOverlappedResult         what the call returns
//	IUnknown::QueryInterface, AddRef            none
//	IUnknown::Release                           Close
//	ND2_ADAPTER_INFO, ND2_RESULT, ND2_SGE       Info, Result, SGE
//	ND_OP_FLAG_…, ND_MR_FLAG_…, ND_CQ_NOTIFY_…  OpFlags, MRFlags, NotifyType
//	ND_…, STATUS_…                              Status: the Err values
//
// docs/ND.md is the specification of the methods. docs/CONFORMANCE.md says how to run the test of each of their statuses.
//
// # Deliberate differences
//
//   - An overlapped request has no object of its own, so there is nothing to reuse or to keep alive. Each pending call ends when its
//     context does.
//   - The contexts of queue pairs and requests in the SPI are identifiers here: QueuePairConfig.ID, the first argument of each posting call,
//     and Result.QueuePairID and RequestID. They are numbers (uint64), not pointers, so that the queues hold nothing for the garbage
//     collector to scan.
//   - The provider invents remote addresses (MemoryRegion.Address). They allow the same arithmetic as virtual addresses and tell
//     a peer nothing about this process. A slice in an SGE names local memory.
//   - An empty, non-nil slice stands for "buffer, length 0". A slice knows its length, so the statuses for a wrong length do not exist.
//   - Addresses, lists and structures are returned, not written into buffers. GetPrivateData copies, as in the SPI.
//   - Objects have no reference count: the first Close releases, later calls do nothing. An object that another object needs stays alive.
//   - An adapter is one address. Register and Deregister are done when they return. CreateQueuePair takes a structure.
//   - AdapterLoopbackConnections is set, except for a lease of a broker: its Connect to an address of its own machine fails with
//     ErrNetworkUnreachable. Other adapters on AF_XDP use plain sockets for connections to their own machine, because such packets
//     never reach an interface.
//   - A blocking call waits for an event after the call began. A program that checks first and then waits may miss an event in
//     between. To miss none, or to wait for several things at once, arm a Notification first: CompletionQueue.Arm,
//     Connector.ArmDisconnect, Listener.ArmConnectionRequest, SharedReceiveQueue.Arm.
//   - These are additions to ND2: OpDefer, CompletionQueue.Moderate, the counters, NotifyAddressChange and Connector.Cause. Dial and
//     Listen are additions too. They make connected endpoints (Endpoint), with blocking Send, Receive, Read and Write.
//
// # Order
//
// The peer carries out the requests of one queue pair in the order in which they were posted. Results come in that order too,
// separately for initiator requests and for receives. Therefore:
//
//   - A Write is in the peer's memory before any Send or Write that was posted after it. When a Send completes a receive, all Writes
//     before the Send have landed. Within one Write the last bytes become visible last.
//   - A successful result says that the peer's adapter has put the bytes where they belong, not that its application has seen them.
//   - A Read returns the data of earlier Writes of the same queue pair. Later requests may be carried out before the answer of a Read
//     arrives; OpReadFence holds them back until then.
//
// There is no order between two queue pairs, nor for memory that the peer's application changes meanwhile. When a request fails,
// the connection is over, and the requests posted after it were not carried out. Cause says why.
//
// # Nil
//
// A blocking call refuses a nil context with ErrInvalidParameter. Every call refuses a nil object with the status in its comment.
// Both happen before the call does anything. A nil slice is an empty slice, except for Register.
//
// # Concurrency
//
// All methods may be called from any goroutine. Posting never blocks. A successful post and GetResults allocate nothing; a refused
// post allocates its error.
package nd
