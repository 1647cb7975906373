//go:build !shadow

package fanout

import (
	"xdsrelay/fanout/conversation"
	"xdsrelay/relay/cache"
)

// shadow compares the state of a type with a conversation in builds with the tag shadow.
type shadow struct{}

func (shadow) event(*typeState, func(*conversation.Conversation)) {}
func (shadow) check(*typeState)                                   {}
func (shadow) may(*stream, *typeState, *cache.Head, bool)         {}
func (shadow) next(*stream, *typeState, *cache.Head, bool, bool, conversation.Act) {
}
func (shadow) judge(*stream, *typeState, *cache.Head, *cache.Query, *body, conversation.Act) {
}

func resultOf(*body) *conversation.Result { return nil }

func mustAgree(*conversation.Conversation, string, bool, bool) {}
