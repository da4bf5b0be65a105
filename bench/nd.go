package bench

import (
	"context"
)

func (j Job) runND(ctx context.Context, c Coordinator, sink Sink) error {
	return nil
}
