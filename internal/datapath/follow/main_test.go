package follow

import "time"

// patience is how long a test waits for an event.
const patience = time.Minute
