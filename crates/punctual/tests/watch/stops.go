// Requests so many collections: each stops the world twice. stops COUNT
//
// It prints READY, waits for a line, runs, prints DONE, and waits for another line.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"
)

func main() {
	count, _ := strconv.Atoi(os.Args[1])
	debug.SetGCPercent(-1)
	lines := bufio.NewReader(os.Stdin)
	fmt.Println("READY", os.Getpid(), 0)
	lines.ReadString('\n')
	for n := 0; n < count; n++ {
		runtime.GC()
		time.Sleep(2 * time.Millisecond)
	}
	fmt.Println("DONE")
	lines.ReadString('\n')
}
