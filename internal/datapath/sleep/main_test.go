package sleep

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/testhelp"
)

var must = testhelp.Must

// patience is how long a test waits for an event.
const patience = time.Minute
