// Package secure holds the keys of one encrypted connection: which key seals a packet, which key opens it, and when keys change
// (PROTOCOL §10).
//
// Each direction has its own sequence of generations, and each packet names the generation of its key. A Sealer moves to the next
// generation on its own, when its key is used up and the peer has shown that it has the key. An Opener follows as soon as a packet
// of the next generation opens, and keeps the key before it for a while, for packets that were overtaken. So no message about keys
// is ever exchanged, and no packet is tried with two keys.
//
//	Sealer   generation g ---- Limits.Update packets or Limits.Age, and a packet of g arrived ----> g+1
//	Opener   g-1 for Limits.Keep, g, g+1 once a packet of g+1 opened
//
// An Opener also refuses a packet number that it has opened before (Window), because reports and control messages may not be
// repeated. It counts packets whose tag is wrong, so that a key ends before a forger has had enough attempts.
//
// All types are values without locks. They belong to the owner of the connection's engine. Sealing and opening allocate nothing. A
// change of keys allocates the new cipher only.
package secure
