//go:build !linux

package gpu

import "time"

func sleep(d time.Duration) { time.Sleep(d) }
