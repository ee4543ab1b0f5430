package supervise

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// This file is about services of one pod: they begin by what they require, and
// end in order.

// StartPod begins the lives of all services of the named service's pod.
func (v *Supervisor) StartPod(name string) {
	s := v.byName(name)
	if s == nil {
		return
	}
	for _, m := range v.podOf(s) {
		v.Start(m.Name)
	}
}

// begins says true once.
func (s *service) begins() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.lives
	s.lives = true
	return first
}

// podOf is a service's pod, in the table's order.
func (v *Supervisor) podOf(s *service) []*service {
	if s.Pod == "" {
		return []*service{s}
	}
	var out []*service
	for _, m := range v.services {
		if m.Pod == s.Pod {
			out = append(out, m)
		}
	}
	return out
}

// pods are those of which a service has the role. The role "" means every pod of
// which none has one.
func (v *Supervisor) pods(role string) [][]*service {
	var out [][]*service
	for _, s := range v.services {
		pod := v.podOf(s)
		if pod[0] != s {
			continue // it was there with the first of them
		}
		of := ""
		for _, m := range pod {
			if m.Role != "" {
				of = m.Role
			}
		}
		if of == role {
			out = append(out, pod)
		}
	}
	return out
}

// Stop ends the pod of the service with a role by its grace, which the end of ctx
// cuts short, and returns when it is dead or cannot be killed; it says whether
// SIGKILL was needed. The role "" means every pod without one.
func (v *Supervisor) Stop(ctx context.Context, role string) (killed bool) {
	var wg sync.WaitGroup
	var any atomic.Bool
	for _, pod := range v.pods(role) {
		wg.Go(func() {
			defer v.guard("stop of " + pod[0].Name)
			if v.stopPod(ctx, pod, "stopped") {
				any.Store(true)
			}
		})
	}
	wg.Wait()
	return any.Load()
}

// stopPod ends services of one pod. As a kubelet does it, all preStop hooks run at
// once; a sidecar is signalled when the containers and the sidecars after it have
// ended.
func (v *Supervisor) stopPod(ctx context.Context, pod []*service, why string) (killed bool) {
	gone := make([]chan struct{}, len(pod))
	for i := range gone {
		gone[i] = make(chan struct{})
	}
	var wg sync.WaitGroup
	var any atomic.Bool
	for i, s := range pod {
		var turn []<-chan struct{}
		for j, o := range pod {
			if s.Sidecar && !o.Once && (!o.Sidecar || j > i) {
				turn = append(turn, gone[j])
			}
		}
		wg.Go(func() {
			defer close(gone[i])
			defer v.guard("stop of " + s.Name)
			if s.stop(ctx, why, turn...) {
				any.Store(true)
			}
		})
	}
	wg.Wait()
	return any.Load()
}

// podEnds ends the sidecars of a pod once nothing else of it is left.
func (v *Supervisor) podEnds(last *service) {
	pod := v.podOf(last)
	if last.Sidecar || len(pod) == 1 || v.starting.Err() != nil {
		return // in a shutdown somebody else ends them
	}
	sidecars := slices.DeleteFunc(slices.Clone(pod), func(s *service) bool { return !s.Sidecar })
	for _, s := range pod {
		if st, _ := s.get(); !s.Sidecar && st != Done && st != Ended {
			return
		}
	}
	if len(sidecars) == 0 || !sidecars[0].finish() {
		return // of two that end at once the other one has seen it too
	}
	v.printf("pod %s: has ended, and so do its sidecars", last.Pod)
	for _, s := range sidecars[1:] {
		s.finish()
	}
	v.wg.Go(func() {
		defer v.guard("end of pod " + last.Pod)
		v.stopPod(v.ctx, sidecars, "its pod has ended")
	})
}

// finish has a service not be started again; it says true once.
func (s *service) finish() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.final
	s.final = true
	s.wake()
	return first
}
