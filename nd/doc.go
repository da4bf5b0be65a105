// Package nd is the NetworkDirect-style API: adapters, queue pairs, completion queues, memory, connectors, listeners.
//
// # From the ND v2 SPI
//
// The objects are those of the SPI in Go form. An overlapped request is an ordinary blocking call with a context: ending the
// context cancels that request, CancelOverlappedRequests on the object cancels all of its pending ones. PENDING therefore
// does not exist here. Every status is a Go error (Status) that errors.Is finds.
//
//	IND2Provider::OpenAdapter                OpenAdapter
//	IND2Adapter::Query                       Adapter.Info
//	IND2Adapter::Create…                     Adapter.Create…
//	IND2MemoryRegion::Register               MemoryRegion.Register, Adapter.RegisterMemory, Adapter.AllocateMemory
//	IND2MemoryRegion::Deregister             MemoryRegion.Deregister
//	IND2MemoryRegion::Get{Local,Remote}Token MemoryRegion.LocalToken, RemoteToken
//	IND2MemoryWindow::GetRemoteToken         MemoryWindow.RemoteToken
//	IND2CompletionQueue::GetResults          CompletionQueue.GetResults
//	IND2CompletionQueue::Notify              CompletionQueue.Notify
//	IND2SharedReceiveQueue::…                SharedReceiveQueue, same names; GetNotifyAffinity is NotifyAffinity
//	IND2QueuePair::Send, Receive, Read, …    QueuePair.Send, Receive, Read, Write, Bind, Invalidate, Flush
//	IND2Connector::…                         Connector, same names; GetReadLimits is ReadLimits and so on
//	IND2Listener::…                          Listener, same names
//	Release                                  Close
//
// # Deliberate differences
//
//   - Contexts of queue pairs and requests are numbers (uint64), not pointers, so that the queues hold nothing the garbage
//     collector must look at.
//   - Remote addresses are invented by the provider (MemoryRegion.Address). They allow the same arithmetic as a virtual
//     address and tell a peer nothing about this process.
//   - An empty, non-nil slice stands for "buffer, length 0".
//
// # Concurrency
//
// All methods may be called from any goroutine. Posting never blocks and, like GetResults, never allocates.
package nd
