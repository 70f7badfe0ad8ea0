// Uses nil pointers, which the runtime handles by SIGSEGV, in threads that use C's malloc. With an argument, C code makes a fault that ends the
// process.
package main

/*
#include <stdlib.h>
#include <string.h>
static void use(int rounds) {
	void *kept[64] = {0};
	for (int i = 0; i < rounds; i++) {
		free(kept[i % 64]);
		kept[i % 64] = malloc(100 + i % 1000);
		memset(kept[i % 64], 1, 100);
	}
	for (int i = 0; i < 64; i++)
		free(kept[i]);
}
static void fault(void) { *(volatile int *)64 = 1; }
*/
import "C"
import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
)

type node struct{ next *node }

func nilPointer(caught *int64) {
	defer func() {
		if recover() != nil {
			atomic.AddInt64(caught, 1)
		}
	}()
	var nothing *node
	nothing.next = nil
}

func main() {
	var all sync.WaitGroup
	var caught int64
	for i := 0; i < 8; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for j := 0; j < 50; j++ {
				C.use(1000)
				nilPointer(&caught)
			}
		}()
	}
	all.Wait()
	fmt.Println(caught)
	if len(os.Args) > 1 {
		C.fault()
	}
	C.exit(0) // Go's own exit runs no destructor, and so writes no report
}
