// Package control lets a program start others as its children and give them
// orders, as lines of JSON over the children's standard input and output.
//
// A child first writes what its parent has to know to use it, such as the
// address that it listens at:
//
//	{"ready":{"addr":"127.0.0.1:40001"}}
//
// From then on it reads an order at a time and answers it with one line, the
// reply or an error, before it takes the next:
//
//	{"do":"change","args":{"kind":"one"}}
//	{"reply":{"revision":1,"at":"2026-01-01T00:00:00Z"}}
//	{"do":"fly"}
//	{"error":"unknown order \"fly\", expected one of change, down, stats, up"}
//
// It ends when its input does. The system closes that when the parent dies, so
// no child outlives its parent. Standard error is for people.
//
// [Serve] is the child's side, [Start] the parent's.
package control
