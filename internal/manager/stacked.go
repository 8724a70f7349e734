package manager

import (
	"context"

	"github.com/quorate/quorate/internal/stacked"
)

func addStacked(ctx context.Context, p *parts) error { return p.addKind(ctx, stacked.New()) }
