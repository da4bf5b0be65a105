// Package completion implements completion queues and how an engine reports to them (ND specification section 9): rings with one
// writer and one consumer, notifications, and notification moderation. It does not know what a request did.
package completion
