package ops

import (
	"strings"

	"xdsrelay/relay/resource"
)

// shortNames are what people call the types, by their discovery services.
var shortNames = map[string]string{
	resource.ClusterURL: "CDS", resource.EndpointURL: "EDS", resource.LbEndpointURL: "LEDS", resource.ListenerURL: "LDS",
	resource.ScopedRouteURL: "SRDS", resource.RouteURL: "RDS", resource.VirtualHostURL: "VHDS", resource.SecretURL: "SDS",
	resource.RuntimeURL: "RTDS", resource.ExtensionURL: "ECDS",
}

// ShortName is what people call a type: CDS, or the last part of its URL where there
// is no such name.
func ShortName(url string) string {
	if name, ok := shortNames[url]; ok {
		return name
	}
	return url[strings.LastIndexAny(url, "./")+1:]
}

// TypeURL returns the type that people mean: by its URL, the last part of that, or a
// name like CDS, in letters of any case. It is empty for what is none.
func TypeURL(name string) string {
	for url, short := range shortNames {
		if strings.EqualFold(short, name) {
			return url
		}
	}
	for _, t := range resource.Known() {
		if strings.EqualFold(t.ShortName(), name) {
			return t.URL
		}
	}
	if t := resource.TypeNamed(name); t != nil {
		return t.URL
	}
	return ""
}
