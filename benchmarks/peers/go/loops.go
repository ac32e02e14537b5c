package main

import (
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// LoopSample is one closed loop, its times in microseconds.
type LoopSample struct {
	Answers int     `json:"answers"`
	P50     float64 `json:"p50_us"`
	P99     float64 `json:"p99_us"`
	P999    float64 `json:"p999_us"`
	// CPU time of this process per answer.
	CPU float64 `json:"cpu_us"`
}

// closedLoop keeps inFlight calls in flight, one per goroutine.
//
// Answers of the warm-up are checked but not counted. Returns the first failure.
func closedLoop(client *Client, inFlight int, warmUp, length time.Duration) (LoopSample, error) {
	begin := time.Now().Add(warmUp)
	end := begin.Add(length)
	latencies := make([][]time.Duration, inFlight)
	failures := make(chan error, inFlight)
	var calls atomic.Int64
	var failed atomic.Bool
	var group sync.WaitGroup
	cpuBefore := cpuTime()
	for number := range inFlight {
		group.Go(func() {
			at := number * len(client.keys) / inFlight
			for began := time.Now(); began.Before(end) && !failed.Load(); at++ {
				if err := client.call(at % len(client.keys)); err != nil {
					failed.Store(true)
					failures <- err
					return
				}
				ended := time.Now()
				if !ended.Before(begin) && ended.Before(end) {
					latencies[number] = append(latencies[number], ended.Sub(began))
				}
				calls.Add(1)
				began = ended
			}
		})
	}
	group.Wait()
	cpu := cpuTime() - cpuBefore
	if failed.Load() {
		return LoopSample{}, <-failures
	}
	ordered := slices.Concat(latencies...)
	slices.Sort(ordered)
	return LoopSample{
		Answers: len(ordered),
		P50:     at(ordered, 0.50),
		P99:     at(ordered, 0.99),
		P999:    at(ordered, 0.999),
		CPU:     microseconds(cpu) / float64(max(1, calls.Load())),
	}, nil
}

// Burst counts the outcomes of calls that were started together.
type Burst struct {
	Answers  int `json:"answers"`
	Failures int `json:"failures"`
	// One of the failures; empty if there is none.
	Example string `json:"example"`
}

// atOnce starts count calls together; a wrong answer is a failure.
func atOnce(client *Client, count int) Burst {
	outcomes := make(chan error, count)
	start := make(chan struct{})
	for number := range count {
		go func() {
			<-start
			outcomes <- client.call(number % len(client.keys))
		}()
	}
	close(start)
	var burst Burst
	for range count {
		if err := <-outcomes; err != nil {
			burst.Failures++
			burst.Example = err.Error()
		} else {
			burst.Answers++
		}
	}
	return burst
}

func at(ascending []time.Duration, share float64) float64 {
	if len(ascending) == 0 {
		return 0
	}
	return microseconds(ascending[min(len(ascending)-1, int(share*float64(len(ascending))))])
}

func microseconds(duration time.Duration) float64 { return float64(duration.Nanoseconds()) / 1e3 }

// cpuTime returns the CPU time used by this process.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
