package follow

import "time"

// patience is how long a test waits for what has to come.
const patience = time.Minute
