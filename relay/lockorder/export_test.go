//go:build race

package lockorder

// Forget forgets what the goroutine holds, which must end then.
func Forget() {
	id := goroutine()
	shard := &byGoroutine[id>>5%uintptr(len(byGoroutine))]
	shard.Lock()
	defer shard.Unlock()
	delete(shard.held, id)
}
