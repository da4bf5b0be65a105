// Package completion has completion queues and the way an engine reports to them (ND specification section 9): rings with one writer and
// one consumer, waiting notifications, and their moderation. It does not know what a completed request did.
package completion
