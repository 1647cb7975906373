//go:build e2e

package e2e

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"xdsrelay/relay/xdstest"
)

// TestScreenshots takes the pictures of the documentation; `make screenshots` runs it.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("E2E_SCREENSHOTS")
	if dir == "" {
		t.Skip("E2E_SCREENSHOTS names no folder")
	}
	s := startStage(t, 60, "web-storefront", "checkout", "search", "edge-eu", "edge-us")
	const reason = "Error adding/updating cluster(s) checkout: envoy.filters.http.lua: script load error: [string]:12: '=' expected near 'resp'"
	s.client("b", "canary-7f9c", "checkout", 1, func(f *xdstest.Frame) string {
		if f.Nonce == "1" {
			return ""
		}
		return reason
	})
	const rounds = 60 // at two seconds each
	for i := range rounds {
		s.update(s.keys[i%len(s.keys)])
		if i%4 == 0 {
			s.update(s.keys[(i+2)%len(s.keys)])
		}
		<-time.After(2 * time.Second)
	}
	b := startBrowser(t)
	shot := func(name, view string, width, height int, scheme string) order {
		return order{"do": "shot", "path": filepath.Join(dir, name+".png"), "view": view, "width": width, "height": height, "scheme": scheme}
	}
	if err := b.do(order{"do": "open", "url": "http://" + s.nodes["a"].admin + "/"}, sees("1 client has rejected"),
		shot("live-overview", "#/", 1280, 1230, "light"), shot("live-overview-dark", "#/", 1280, 1230, "dark"),
		shot("live-clients", "#/clients", 1280, 760, "light"), shot("live-client", "#/client/canary-7f9c", 1280, 560, "light"),
		shot("live-keys", "#/keys?sort=state", 1280, 480, "light"),
		view("#/key/checkout"), sees("Update", ".past li"), order{"do": "unfold", "within": ".past"}, sees("connectTimeout", ".past"), shot("live-key", "#/key/checkout", 1280, 940, "light"),
		shot("live-topology", "#/topology", 1280, 480, "light"), shot("live-rejection", "#/rejections?"+url.Values{"reason": {reason}, "type": {"CDS"}}.Encode(), 1280, 700, "light"), shot("live-phone", "#/", 390, 844, "light"), shot("live-phone-dark", "#/clients?state=NACKED", 390, 844, "dark"),
	); err != nil {
		t.Fatal(err)
	}
	status := terminal(t, s.nodes["a"], "nodes", "keys", "status --state nacked", "status canary-7f9c")
	if err := os.WriteFile(filepath.Join(dir, "status.svg"), status, 0o644); err != nil {
		t.Fatal(err)
	}
	pictures, err := filepath.Glob(filepath.Join(dir, "live-*.png"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range pictures {
		if err := shrink(path); err != nil {
			t.Error(err)
		}
	}
}

// shrink gives a picture a palette of its most frequent colours, which is all that there
// is in a page but for the edges of letters.
func shrink(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	from, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	box := from.Bounds()
	often := make(map[color.RGBA]int)
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(from.At(x, y)).(color.RGBA) }
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			often[at(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(often), func(a, b color.RGBA) int { return often[b] - often[a] })
	var palette color.Palette
	for _, c := range colours { // those that are like one that is there would take the room of others
		if len(palette) < 256 && (len(palette) == 0 || distance(palette.Convert(c).(color.RGBA), c) > 100) {
			palette = append(palette, c)
		}
	}
	nearest := make(map[color.RGBA]uint8, len(colours))
	for _, c := range colours {
		nearest[c] = uint8(palette.Index(c))
	}
	to := image.NewPaletted(box, palette)
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			to.SetColorIndex(x, y, nearest[at(x, y)])
		}
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

// distance is how different two colours are.
func distance(a, b color.RGBA) int {
	sum := 0
	for _, d := range []int{int(a.R) - int(b.R), int(a.G) - int(b.G), int(a.B) - int(b.B)} {
		sum += d * d
	}
	return sum
}
