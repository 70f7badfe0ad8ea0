// C blocks made by some goroutines and freed by others, whichever threads they run on; prints name=value lines.
package main

/*
#include <stdlib.h>
#include <string.h>
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"
)

type block struct {
	at   unsafe.Pointer
	size int
	fill byte
}

func produce(seed uint32, count int, out chan<- block) {
	state := seed*2654435761 + 1
	for i := 0; i < count; i++ {
		state = state*1664525 + 1013904223
		size := int(state>>20) + 1
		if i%97 == 0 {
			size *= 64
		}
		at := C.malloc(C.size_t(size))
		C.memset(at, C.int(state>>24), C.size_t(size))
		if i%5 == 0 {
			half := size/2 + 1
			at, size = C.realloc(at, C.size_t(half)), half
		}
		out <- block{at, size, byte(state >> 24)}
	}
}

func consume(in <-chan block) (sum, bad uint64) {
	for b := range in {
		contents := unsafe.Slice((*byte)(b.at), b.size)
		for _, c := range contents {
			if c != b.fill {
				bad++
			}
		}
		sum += uint64(b.size) * uint64(b.fill)
		C.free(b.at)
	}
	return sum, bad
}

func exchange(producers, consumers int, seed uint32) (uint64, uint64) {
	blocks := make(chan block, 64)
	var making, using sync.WaitGroup
	var lock sync.Mutex
	var sum, bad uint64
	for i := 0; i < producers; i++ {
		making.Add(1)
		go func(s uint32) { defer making.Done(); produce(s, 4000, blocks) }(seed + uint32(i))
	}
	for i := 0; i < consumers; i++ {
		using.Add(1)
		go func() {
			defer using.Done()
			s, b := consume(blocks)
			lock.Lock()
			sum, bad = sum+s, bad+b
			lock.Unlock()
		}()
	}
	making.Wait()
	close(blocks)
	using.Wait()
	return sum, bad
}

func main() {
	for round := 0; round < 6; round++ {
		sum, bad := exchange(1+round, 6-round, uint32(round*100))
		fmt.Printf("sum%d=%d\nbad%d=%d\n", round, sum, round, bad)
	}
}
