// Package provider is the transport engine: packets, requests and time in; packets, completions and deadlines out.
//
// # A packet's life
//
// Engine.Run is one poll of the engine, which the code calls a turn (turn.go). It does the following in order:
//
//   - It receives a batch of packets from the Link (demux.go). Each packet is verified, or opened if it is encrypted (sealed.go), and
//     given to its connection. The connection
//     executes it (responder.go), stores it until the gap before it closes, or drops it for a counted reason.
//   - Acknowledgements in the packets complete requests (sent.go), reveal losses (recovery.go) and move the window (congestion.go).
//   - It runs timers (timers.go) and handles queue pairs with new requests.
//   - It transmits: connections in turn (scheduler.go) pack requests (requester.go) and answers to READs (package answers) into packets
//     (builder.go).
//   - It acknowledges packets of peers that still wait for it (acknowledge.go), and makes results visible (package completion).
//
// Engine.Glance, the poll of a poller, may show results before the second half. Engine.Serve, the poll of a poster, sends first and
// receives nothing. Connections begin in handshake.go, connector.go and listener.go, and end in ending.go.
//
// # Files
//
//   - An engine and who runs it: engine.go, config.go, shard.go, turn.go, timers.go, scheduler.go, shares.go, inbox.go.
//   - The objects of applications: qp.go, qpstate.go, workqueue.go, sharedreceive.go, bind.go, connector.go, connect.go, connectorend.go,
//     listener.go.
//   - A connection: conn.go, traffic.go, sealed.go, pool.go, directory.go, index.go, handshake.go, strangers.go, proof.go, unreachable.go, path.go,
//     pathmtu.go, move.go, ending.go.
//   - Sending: sending.go, requester.go, builder.go, pieces.go, bulk.go, sent.go, recovery.go, congestion.go.
//   - Receiving: demux.go, contents.go, responder.go, starvation.go, acknowledge.go.
//   - TLS handshakes: tls.go, shaking.go, shakepackets.go.
//   - Looking at it: snapshot.go, invariants.go, tap.go.
//   - Names of the packages below that upper layers use: names.go.
//
// Each package below provider/internal has state of its own, and does not know this package.
//
// # Invariants
//
// The code refers to these by number where it relies on them.
//
//	I1  An engine and everything at home on it belongs to its owner: the holder of its Shard's lock. Others touch work queues,
//	    completion rings, the doorbell list, the inbox and the memory table, each by its own rule.
//	I2  Nobody waits for an engine's lock while owning another, except a caller that takes all of them in ascending order.
//	I3  Nothing of a packet is used before version, reserved bits, connection id, addresses, and CRC or tag were found right (PROTOCOL §9.1).
//	I4  Packets of a space are executed once, in the order of their places.
//	I5  Memory is touched only inside a turn in which its token was looked up: after Deregister returns nobody touches it.
//	I6  Results of a queue pair come in the order of posting, initiator requests and receives each for themselves, one for each.
//	I7  Operations sent again have the same place and bytes, except what READ responses read anew, and a packet number of their own.
//	I8  Every frame that came from the link goes back to that link: at the end of the batch, or when the packet was executed,
//	    dropped or sent.
//	I9  Every state that waits for somebody has a deadline, and every table a named bound.
//	I10 A turn allocates nothing and reads no clock once connections, queues and pools have their sizes.
//	I11 A connection, its connector and its queue pair are at home on one engine, or all three on the way between two.
//	I12 Only the leader of a group makes and frees connections, and only it touches ports, tuples, peers, sources and listeners.
package provider
