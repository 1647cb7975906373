package store

import (
	"errors"
	"net"
	"net/url"
	"strconv"
)

// address is a parsed URL. Parse errors never quote the URL: it may contain a password.
type address struct {
	addrs          []string // host:port, or a path
	user, password string
	database       int
	tls            bool
}

// parse parses a URL. If it has no port, the default port for the servers of the mode is used.
func parse(text string, mode Mode) (a address, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return a, errors.New("redis: the URL cannot be read: expected redis://[user[:password]@]host:port, with %XX for special characters in the password")
	}
	a.user = u.User.Username()
	a.password, _ = u.User.Password()
	query := u.Query()
	database := ""
	switch u.Scheme {
	case "unix":
		if u.Path == "" {
			return a, errors.New("redis: unix:// without a path")
		}
		a.addrs = []string{u.Path}
		database = query.Get("db")
		query.Del("db")
	case "redis", "rediss":
		a.tls = u.Scheme == "rediss"
		a.addrs = []string{hostPort(u.Host, mode)}
		if u.Path != "" {
			database = u.Path[1:]
		}
		for _, more := range query["addr"] {
			a.addrs = append(a.addrs, hostPort(more, mode))
		}
		query.Del("addr")
	default:
		return a, errors.New("redis: expected a URL of redis://, rediss:// or unix://")
	}
	// A ? or # in a password would be parsed as one of these.
	if len(query) > 0 {
		return a, errors.New("redis: the URL has a parameter that is none: expected only addr, or db for unix://, and %3F for a ? in the password")
	}
	if u.Fragment != "" || u.Opaque != "" {
		return a, errors.New("redis: expected a URL like redis://[user[:password]@]host:port, with %23 for a # in the password")
	}
	if database != "" {
		if a.database, err = strconv.Atoi(database); err != nil || a.database < 0 {
			return a, errors.New("redis: the URL's database is not a number")
		}
	}
	switch {
	case mode == Cluster && a.database != 0:
		return a, errors.New("redis: the URL names a database, and a cluster has only 0")
	case mode == Standalone && len(a.addrs) > 1:
		return a, errors.New("redis: the URL has several addresses: expected the mode sentinel or cluster, or one address")
	}
	return a, nil
}

// hostPort completes the address of a server.
func hostPort(host string, mode Mode) string {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		u := url.URL{Host: host}
		name, port = u.Hostname(), ""
	}
	if name == "" {
		name = "localhost"
	}
	if port == "" {
		port = "6379"
		if mode == Sentinel {
			port = "26379"
		}
	}
	return net.JoinHostPort(name, port)
}
