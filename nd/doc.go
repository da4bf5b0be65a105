// Package nd is the NetworkDirect-style API: adapters, queue pairs, completion queues, memory, connectors, listeners.
//
// # From the ND v2 SPI
//
// The objects are those of the SPI in Go form. An overlapped request is an ordinary blocking call with a context: ending the
// context cancels that request, CancelOverlappedRequests on the object cancels all of its pending ones. PENDING therefore
// does not exist here. Every status is a Go error (Status) that errors.Is finds.
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
// docs/ND.md is the specification that the methods keep to, docs/CONFORMANCE.md says how to run the test of each of their statuses.
//
// # Deliberate differences
//
//   - An overlapped request has no object of its own: there is nothing to reuse or to keep alive. Each pending call ends on its own
//     when its context does.
//   - Contexts of queue pairs and requests are numbers (uint64), not pointers, so that the queues hold nothing the garbage
//     collector must look at.
//   - Remote addresses are invented by the provider (MemoryRegion.Address). They allow the same arithmetic as a virtual
//     address and tell a peer nothing about this process. A slice in an SGE names local memory.
//   - An empty, non-nil slice stands for "buffer, length 0". A slice cannot be shorter than it says: the statuses for that are gone.
//   - Addresses, lists and structures are returned, not written into buffers; GetPrivateData copies, as in the SPI.
//   - Objects are not counted: the first Close releases, later ones do nothing. Whatever still needs an object keeps it alive.
//   - An adapter is one address. Register and Deregister are done when they return. CreateQueuePair takes a structure.
//   - AdapterLoopbackConnections is set but on a lease of a broker, which refuses a Connect to an address of its machine with
//     ErrNetworkUnreachable. Other adapters on AF_XDP carry such connections by plain sockets, because their packets never come to an interface.
//   - A call that waits begins when it is called. Who must miss nothing between a look and the wait, or waits for something else too, arms before:
//     CompletionQueue.Arm, Connector.ArmDisconnect, Listener.ArmConnectionRequest and SharedReceiveQueue.Arm return a Notification.
//   - Additions: OpDefer, CompletionQueue.Moderate, the counters, NotifyAddressChange, Connector.Cause, and Dial and Listen, which make
//     connected endpoints in a few lines.
//
// # Order
//
// Requests of one queue pair are carried out at the peer in the order in which they were posted, and their results come in that order,
// initiator requests and receives each for themselves. So
//
//   - a Write is in the peer's memory before a Send or Write that was posted after it is seen there: the receive that a Send completes says that all
//     Writes before it have landed, and of one Write the last bytes become visible last, unless AdapterConfig.ImmediatePlacement gave that up;
//   - a result of success says that the peer's adapter has the bytes where they belong, not that its application saw them;
//   - a Read returns what earlier Writes of the same queue pair wrote. Later requests may be carried out before the answer of a Read is there:
//     OpReadFence holds them back until it is.
//
// Nothing is promised between two queue pairs, nor about memory that the peer's application changes meanwhile. When a request fails, those posted
// after it were not carried out, and the connection is over; Cause says why.
//
// # Nil
//
// A call that waits refuses a nil context with ErrInvalidParameter, and every call refuses a nil object with the status that its
// comment names, before anything begins. A nil slice is an empty one, but for Register.
//
// # Concurrency
//
// All methods may be called from any goroutine. Posting never blocks. A post that is taken and GetResults allocate nothing; a refusal allocates its error.
package nd
