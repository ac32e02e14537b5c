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
	// Of this process, an answer.
	CPU float64 `json:"cpu_us"`
}

// closedLoop has so many goroutines ask, each anew as soon as it has its answer.
//
// Answers of the warm-up are checked and not counted. The first failure is returned.
func closedLoop(asker *Asker, inFlight int, warmUp, length time.Duration) (LoopSample, error) {
	begin := time.Now().Add(warmUp)
	end := begin.Add(length)
	latencies := make([][]time.Duration, inFlight)
	failures := make(chan error, inFlight)
	var asked atomic.Int64
	var failed atomic.Bool
	var group sync.WaitGroup
	cpuBefore := cpuTime()
	for number := range inFlight {
		group.Go(func() {
			at := number * len(asker.keys) / inFlight
			for began := time.Now(); began.Before(end) && !failed.Load(); at++ {
				if err := asker.ask(at % len(asker.keys)); err != nil {
					failed.Store(true)
					failures <- err
					return
				}
				ended := time.Now()
				if !ended.Before(begin) && ended.Before(end) {
					latencies[number] = append(latencies[number], ended.Sub(began))
				}
				asked.Add(1)
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
		CPU:     microseconds(cpu) / float64(max(1, asked.Load())),
	}, nil
}

// Burst is how calls that were begun together ended.
type Burst struct {
	Answers  int `json:"answers"`
	Failures int `json:"failures"`
	// One of the failures; empty: there is none.
	Example string `json:"example"`
}

// atOnce begins so many calls together; a wrong answer is a failure.
func atOnce(asker *Asker, count int) Burst {
	outcomes := make(chan error, count)
	start := make(chan struct{})
	for number := range count {
		go func() {
			<-start
			outcomes <- asker.ask(number % len(asker.keys))
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

// cpuTime is what this process has used so far.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
