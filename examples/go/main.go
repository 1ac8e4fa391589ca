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

// HolderInput is the same as in the Python example.
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
		// Replace this by an activity that gets resource, slot and RunID: its fencing token.
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
