package turn

import "time"

// AnswerTime is the delay of an acknowledgement that the sender did not request. A packet that wakes the application often causes an
// answer, and the answer can carry the acknowledgement.
const AnswerTime = 2 * time.Millisecond
