package admin

import (
	"log/slog"
	"net/http"
	"time"
)

// NewServer makes an HTTP server with limits for the admin endpoints. Its own
// errors, such as a client that breaks off, are logged at debug level.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      2 * time.Minute, // bounds ?seconds= of profiles
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
