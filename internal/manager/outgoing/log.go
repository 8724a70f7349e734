package outgoing

import (
	"errors"

	"github.com/go-logr/logr"

	"github.com/quorate/quorate/internal/program/plaintext"
)

// longestValue is how many bytes of a value a log line has at most. The facts of a decision that breaks an invariant are the longest.
const longestValue = 256 << 10

// Logger returns a logger like l whose lines have no secrets and nothing that a terminal would act on.
func Logger(l logr.Logger) logr.Logger {
	inner := l.GetSink()
	if inner == nil {
		return l
	}
	if deep, can := inner.(logr.CallDepthLogSink); can {
		inner = deep.WithCallDepth(1)
	}
	return logr.New(sink{inner})
}

type sink struct{ inner logr.LogSink }

// Init implements logr.LogSink. The inner sink was initialised by its own logger.
func (sink) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink.
func (s sink) Enabled(level int) bool { return s.inner.Enabled(level) }

// Info implements logr.LogSink.
func (s sink) Info(level int, text string, values ...any) {
	s.inner.Info(level, plaintext.Quote(text, longestValue), cleanValues(values)...)
}

// Error implements logr.LogSink.
func (s sink) Error(err error, text string, values ...any) {
	if err != nil {
		err = errors.New(plaintext.Quote(err.Error(), longestValue))
	}
	s.inner.Error(err, plaintext.Quote(text, longestValue), cleanValues(values)...)
}

// WithValues implements logr.LogSink.
func (s sink) WithValues(values ...any) logr.LogSink {
	return sink{s.inner.WithValues(cleanValues(values)...)}
}

// WithName implements logr.LogSink.
func (s sink) WithName(name string) logr.LogSink { return sink{s.inner.WithName(name)} }

// WithCallDepth implements logr.CallDepthLogSink.
func (s sink) WithCallDepth(depth int) logr.LogSink {
	if deep, can := s.inner.(logr.CallDepthLogSink); can {
		return sink{deep.WithCallDepth(depth)}
	}
	return s
}

// cleanValues returns keys and values with clean texts.
func cleanValues(values []any) []any {
	out := make([]any, len(values))
	for i, value := range values {
		switch v := value.(type) {
		case string:
			out[i] = plaintext.Quote(v, longestValue)
		case error:
			out[i] = plaintext.Quote(v.Error(), longestValue)
		default:
			out[i] = value
		}
	}
	return out
}
