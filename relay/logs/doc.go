// Package logs makes the program's log: lines as text or JSON, with a level for each
// part of a node that may change while it runs, and without the same line a thousand
// times.
//
// A part is named by the attribute "part" of its logger (see [Part]); the levels are
// looked up when that is set, so a line below the level costs one atomic load.
package logs
