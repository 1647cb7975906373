package conversation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/xdstest"
)

// item is one resource as a script writes it: name=tag{attributes}.
type item struct {
	typeURL string
	name    string
	content content // tag "" means any content, for what is expected

	envelope
}

// envelope is what a script says of a resource beside name and content.
type envelope struct {
	version    string // "" for any, or for the origin's own
	ttl        time.Duration
	ttlAtMost  bool // expected: ttl is the most that it may be
	aliases    []string
	bodyless   bool
	wrapped    bool // SotW: in a Resource
	bare       bool // SotW: not in one, whatever else is said
	metadata   string
	doNotCache bool
	unknown    string // a field of Resource that nobody knows
	altName    string // Resource.resource_name.name
}

// parseItems reads resources. said means that an origin says them, so that each
// needs a content; otherwise they are expected.
func parseItems(typeURL string, words []word, said bool, known *contents) ([]item, error) {
	var items []item
	for _, w := range words {
		it, err := parseItem(typeURL, w, said)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(items, func(o item) bool { return o.name == it.name }) && !said {
			return nil, fmt.Errorf("%s is named twice", it.name)
		}
		if said && !it.bodyless {
			if _, err := known.add(typeURL, it.name, it.content); err != nil {
				return nil, err
			}
		}
		items = append(items, it)
	}
	return items, nil
}

func parseItem(typeURL string, w word, said bool) (item, error) {
	it := item{typeURL: typeURL}
	var tagged bool
	it.name, it.content.tag, tagged = w.split()
	if tagged && !w.quoted && strings.HasPrefix(it.name, "xdstp:") && strings.Contains(it.name, "?") {
		return item{}, fmt.Errorf("%s is ambiguous; put the name in quotes: '…'=tag", w)
	}
	for _, a := range w.attrs {
		if err := it.attribute(a, said); err != nil {
			return item{}, fmt.Errorf("%s: %w", it.name, err)
		}
	}
	switch {
	case tagged && it.content.tag == "":
		return item{}, fmt.Errorf("%s has a = but no tag after it", it.name)
	case it.bodyless && tagged:
		return item{}, fmt.Errorf("%s has no body, so it has no tag", it.name)
	case said && !it.bodyless && !tagged:
		return item{}, fmt.Errorf("%s needs a content, like %s=1", it.name, it.name)
	case it.bare && it.wrapped:
		return item{}, fmt.Errorf("%s is either bare or wrapped", it.name)
	}
	return it, nil
}

// attribute reads one word of the braces.
func (it *item) attribute(w word, said bool) error {
	key, value, _ := w.split()
	flags := map[string]*bool{"bodyless": &it.bodyless, "wrapped": &it.wrapped, "bare": &it.bare, "do-not-cache": &it.doNotCache}
	texts := map[string]*string{"version": &it.version, "metadata": &it.metadata, "unknown": &it.unknown, "resource-name": &it.altName}
	if said {
		flags["static"], flags["garbage"] = &it.content.static, &it.content.garbage
		texts["inner"], texts["service"], texts["to"], texts["extra"] = &it.content.inner, &it.content.service, &it.content.to, &it.content.extra
	}
	var err error
	switch {
	case w.braces:
		err = fmt.Errorf("braces inside of braces")
	case flags[key] != nil && w.equals < 0:
		*flags[key] = true
	case w.equals < 0 || value == "":
		err = fmt.Errorf("unknown attribute %s", w)
	case texts[key] != nil:
		*texts[key] = value
	case key == "alias":
		it.aliases = append(it.aliases, value)
	case key == "ttl":
		it.ttl, err = time.ParseDuration(value)
	case key == "ttl-at-most" && !said:
		it.ttlAtMost = true
		it.ttl, err = time.ParseDuration(value)
	case key == "size" && said:
		it.content.size, err = strconv.Atoi(value)
	case key == "any" && said:
		it.content.anyURL, err = typeURL(word{text: value, equals: -1})
	default:
		err = fmt.Errorf("unknown attribute %s", w)
	}
	return err
}

// body is what the item holds; nil if it is bodyless.
func (it item) body() *anypb.Any {
	if it.bodyless {
		return nil
	}
	return it.content.build(it.typeURL, it.name)
}

// plain reports whether there is nothing but a name and a content.
func (it item) plain() bool {
	e := it.envelope
	return e.ttl == 0 && len(e.aliases) == 0 && !e.bodyless && !e.wrapped && e.metadata == "" && !e.doNotCache &&
		e.unknown == "" && e.altName == ""
}

// wrap is the item in its envelope. version stands in where it says none.
func (it item) wrap(version string) *discoveryv3.Resource {
	r := &discoveryv3.Resource{Name: it.name, Version: version, Resource: it.body(), Aliases: it.aliases}
	if it.version != "" {
		r.Version = it.version
	}
	if it.ttl > 0 {
		r.Ttl = durationpb.New(it.ttl)
	}
	if it.metadata != "" {
		r.Metadata = &corev3.Metadata{FilterMetadata: metadata(it.metadata)}
	}
	if it.doNotCache {
		r.CacheControl = &discoveryv3.Resource_CacheControl{DoNotCache: true}
	}
	if it.altName != "" {
		r.ResourceName = &discoveryv3.ResourceName{Name: it.altName}
	}
	if it.unknown != "" {
		b := protowire.AppendTag(nil, extraField, protowire.BytesType)
		r.ProtoReflect().SetUnknown(protowire.AppendString(b, it.unknown))
	}
	return r
}

// inSotW is the item as a SotW response carries it.
func (it item) inSotW(version string) *anypb.Any {
	if it.plain() {
		return it.body()
	}
	return xdstest.Any(it.wrap(version))
}

// envelopeProblem says how the envelope of what arrived differs from what was
// expected; "" if it does not.
func (it item) envelopeProblem(got xdstest.Resource, delta bool) string {
	want := it.wrap("")
	w := got.Wrapper
	switch {
	case it.version != "" && delta && got.Version != it.version:
		return fmt.Sprintf("has version %q, want %q", got.Version, it.version)
	case it.ttlAtMost && (got.TTL <= 0 || got.TTL > it.ttl):
		return fmt.Sprintf("has TTL %v, want one of at most %v", got.TTL, it.ttl)
	case !it.ttlAtMost && got.TTL != it.ttl:
		return fmt.Sprintf("has TTL %v, want %v", got.TTL, it.ttl)
	case !slices.Equal(slices.Sorted(slices.Values(got.Aliases)), slices.Sorted(slices.Values(it.aliases))):
		return fmt.Sprintf("has aliases %q, want %q", got.Aliases, it.aliases)
	case it.bodyless != (got.Body == nil):
		return fmt.Sprintf("has a body: %v, want %v", got.Body != nil, !it.bodyless)
	case !delta && it.wrapped && w == nil:
		return "is bare, want it wrapped"
	case !delta && it.bare && w != nil:
		return "is wrapped, want it bare"
	case it.metadata != "" && !proto.Equal(w.GetMetadata(), want.GetMetadata()):
		return fmt.Sprintf("has metadata %v, want %v", w.GetMetadata(), want.GetMetadata())
	case it.doNotCache && !w.GetCacheControl().GetDoNotCache():
		return "lacks do_not_cache"
	case it.altName != "" && w.GetResourceName().GetName() != it.altName:
		return fmt.Sprintf("has resource_name %v, want %q", w.GetResourceName(), it.altName)
	case it.unknown != "" && string(w.ProtoReflect().GetUnknown()) != string(want.ProtoReflect().GetUnknown()):
		return fmt.Sprintf("has unknown fields %q, want %q", w.ProtoReflect().GetUnknown(), want.ProtoReflect().GetUnknown())
	}
	return ""
}
