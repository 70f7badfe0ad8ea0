// This program makes images of C blocks. Every fourth image is not freed.
package main

/*
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static __attribute__((noinline)) void *new_image(void)
{
	return memset(malloc(600), 'i', 600); // LEAK
}
*/
import "C"

import "fmt"

func main() {
	for round := 0; ; round++ {
		for i := 0; i < 4; i++ {
			image := C.new_image()
			if i != 2 {
				C.free(image)
			}
		}
		C.usleep(1000)
		if round == 1000 {
			fmt.Println("ready") // and continues, as a server does
		}
	}
}
