package table

import "time"

// StatusPath is where PID 1 says how each service is: JSON, a list of
// ServiceStatus in the table's order. It is replaced as a whole at each change.
const StatusPath = "/run/garboard/services.json"

// States of a service, as ServiceStatus has them.
const (
	StateWaiting  = "waiting"  // for what it comes after or requires, or not begun
	StateStarting = "starting" // runs, not ready yet
	StateReady    = "ready"    // runs and is ready
	StateBackOff  = "back-off" // has died and waits to be started again
	StateDone     = "done"     // a task that has succeeded
	StateEnded    = "ended"    // will not be started again
)

// ServiceStatus is how a service is, and how it ended the last time.
type ServiceStatus struct {
	Name  string `json:"name"`
	State string `json:"state"`
	// Up says that the postStart hook and the startup probe of this run have
	// succeeded: what a Pod's status calls started.
	Up bool `json:"up,omitempty"`
	// PID is 0 where there is no process.
	PID int `json:"pid,omitempty"`
	// Restarts are the starts after the first, asked for or not.
	Restarts int `json:"restarts"`
	// Started is the last start by the node's clock.
	Started *time.Time `json:"started,omitempty"`
	// Last is the last run that has ended.
	Last *ServiceExit `json:"last,omitempty"`
	// Previous is the one before that.
	Previous *ServiceExit `json:"previous,omitempty"`
	// Error says why it could not be started the last time it was tried.
	Error string `json:"error,omitempty"`
}

// ServiceExit is how a run ended.
type ServiceExit struct {
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
	// Code is what it exited with, or 128 and the signal's number, as container
	// runtimes count.
	Code int `json:"code"`
	// Signal ended it; 0 if it exited by itself.
	Signal int `json:"signal,omitempty"`
	// Message says why PID 1 ended it, and which of its hooks failed.
	Message string `json:"message,omitempty"`
}
