// Package secure makes TLS and shared secrets of files that may change while the
// program runs: certificates that rotate, tokens, keys.
//
// Files are looked at when what they hold is needed, which for TLS is at each
// handshake: there is no interval to wait for, nothing runs in between, and
// connections that stand are not touched. What cannot be used at the start is an
// error. What cannot be used later is logged once, and what was read before stays:
// a rotation that is half done, or went wrong, takes nothing from anybody.
package secure
