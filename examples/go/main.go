// A Workflow that holds a permit, and the worker that runs it:
//
//	go run . <task queue>
//
// It reads TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE.
package main

import (
	"log"
	"os"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// HolderInput is that of the Python example too.
type HolderInput struct {
	Pool   Pool  `json:"pool"`
	HoldMs int64 `json:"hold_ms"`
}

// Held says what the Workflow held.
type Held struct {
	Slot  string `json:"slot"`
	RunID string `json:"run_id"`
}

// PermitHolder works for a while under a permit.
func PermitHolder(ctx workflow.Context, input HolderInput) (held Held, err error) {
	err = WithPermit(ctx, input.Pool, func(ctx workflow.Context, permit Permit) error {
		held = Held{permit.Slot, permit.RunID}
		// Yours to replace: an activity that passes slot and RunID on as its fencing token.
		return workflow.Sleep(ctx, time.Duration(input.HoldMs)*time.Millisecond)
	})
	return held, err
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: permit-holder <task queue>")
	}
	// Empty means the defaults: localhost:7233 and "default".
	temporal, err := client.Dial(client.Options{
		HostPort:  os.Getenv("TEMPORAL_ADDRESS"),
		Namespace: os.Getenv("TEMPORAL_NAMESPACE"),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer temporal.Close()
	holders := worker.New(temporal, os.Args[1], worker.Options{})
	holders.RegisterWorkflow(PermitHolder)
	if err := holders.Run(worker.InterruptCh()); err != nil {
		log.Print(err)
	}
}
