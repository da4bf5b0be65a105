// Package completion is completion queues and what an engine reports to them (ND specification section 9): rings that one owner writes and one
// consumer reads, notifications that wait, and their moderation. It knows nothing of what completed.
package completion
