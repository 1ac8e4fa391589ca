// Permits of temporal-semaphore for Go Workflows, written from docs/protocol.md. No Go code grants a permit: the server does,
// by never running two Workflows of one ID. A TypeScript worker runs the permit and queue Workflows on Pool.TaskQueue.
package main

import (
	"errors"
	"fmt"
	"math/rand"
	"strconv"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

const (
	fastAttempts    = 3
	enqueueAttempts = 5
	maxHold         = 24 * time.Hour
	maxCapacity     = 1000
	// After this silence a parked waiter tries a slot itself; each next silence is longer.
	firstSilence     = 30 * time.Second
	longestSilence   = 10 * time.Minute
	queueFullSilence = time.Second
)

// priority: without it, a child inherits its parent's, and others wait for its tasks.
var priority = temporal.Priority{PriorityKey: 1, FairnessKey: "permits", FairnessWeight: 1}

var errHeld = errors.New("the slot is held")

// Pool is what everyone who uses a resource must agree on, and where its permits run.
type Pool struct {
	Resource  string `json:"resource"`
	Capacity  int    `json:"capacity"`
	TaskQueue string `json:"task_queue"`
	LeaseMs   int64  `json:"lease_ms"`
}

func (p Pool) permitID(slot string) string { return "permit:" + p.Resource + ":" + slot }
func (p Pool) queueID() string             { return "permit-queue:" + p.Resource }
func (p Pool) lease() time.Duration        { return time.Duration(p.LeaseMs) * time.Millisecond }

// mayClaim checks a turn: its slot must be ours, or one that an operator has added, and it must come from our queue.
func (p Pool) mayClaim(t turn) bool {
	number, err := strconv.Atoi(t.Slot)
	ours := number >= 0 && number < max(p.Capacity, min(t.Capacity, maxCapacity))
	return err == nil && strconv.Itoa(number) == t.Slot && ours && t.QueueID == p.queueID()
}

// Permit is a held slot. RunID orders its fencing tokens; signals are pinned to it, so none hits the slot's next holder.
type Permit struct {
	Slot, RunID string
	id          string
	ended       workflow.ChildWorkflowFuture
}

type execution struct {
	WorkflowID   string `json:"workflowId"`
	RunID        string `json:"runId"`
	WorkflowType string `json:"workflowType,omitempty"`
}

type permitInput struct {
	LeaseMs   int64     `json:"leaseMs"`
	Holder    execution `json:"holder"`
	WatchedBy string    `json:"watchedBy,omitempty"`
}

type ticket struct {
	ID      string    `json:"id"`
	Waiter  execution `json:"waiter"`
	Slots   int       `json:"slots"`
	SinceMs int64     `json:"sinceMs"`
}

type turn struct {
	QueueID  string `json:"queueId"`
	TicketID string `json:"ticketId"`
	Slot     string `json:"slot"`
	Capacity int    `json:"capacity"` // what an operator has set, where Slot is beyond ours
}

type missed struct {
	Ticket ticket `json:"ticket"`
	Slot   string `json:"slot"`
}

type declined struct {
	TicketID string `json:"ticketId"`
	Slot     string `json:"slot,omitempty"`
}

// WithPermit runs work under a renewed permit. It cancels work's context when the permit is lost, and then fails.
// A Workflow may have one WithPermit under way at a time, for "permit-turn" is one channel.
func WithPermit(ctx workflow.Context, pool Pool, work func(workflow.Context, Permit) error) error {
	permit, err := acquire(ctx, pool)
	if err != nil {
		return err
	}
	// Renewal and release outlast a cancelled caller: its work may still be cleaning up under the permit.
	uncancelled, _ := workflow.NewDisconnectedContext(ctx)
	renewing, stopRenewing := workflow.WithCancel(uncancelled)
	workflow.Go(renewing, func(ctx workflow.Context) {
		for workflow.Sleep(ctx, pool.lease()/3) == nil && tell(ctx, permit.id, permit.RunID, "renew", nil) {
		}
	})
	working, cancelWork := workflow.WithCancel(ctx)
	body, done := workflow.NewFuture(uncancelled)
	workflow.Go(working, func(ctx workflow.Context) { done.Set(nil, work(ctx, permit)) })
	_ = workflow.Await(uncancelled, func() bool { return body.IsReady() || permit.ended.IsReady() })
	lost := permit.ended.IsReady()
	cancelWork()
	err = body.Get(uncancelled, nil)
	stopRenewing()
	permit.release(uncancelled)
	if lost { // without err as its cause: the SDK would take a cancelled cause for a cancelled Workflow
		return temporal.NewNonRetryableApplicationError("lost "+permit.id+", run "+permit.RunID, "PermitLostError", nil)
	}
	return err
}

// release returns when the slot is free, so that our own next claim finds it so.
func (p Permit) release(ctx workflow.Context) {
	tell(ctx, p.id, p.RunID, "release", nil)
	_ = p.ended.Get(ctx, nil)
}

// acquire tries a few slots and then waits in the queue. No way out of it leaks a permit.
func acquire(ctx workflow.Context, pool Pool) (Permit, error) {
	var seed int64
	if err := workflow.SideEffect(ctx, func(workflow.Context) any { return rand.Int63() }).Get(&seed); err != nil {
		return Permit{}, err
	}
	random := rand.New(rand.NewSource(seed)) // the same on replay
	for _, index := range random.Perm(pool.Capacity)[:min(fastAttempts, pool.Capacity)] {
		permit, err := claim(ctx, pool, strconv.Itoa(index), "")
		if !errors.Is(err, errHeld) {
			return permit, err
		}
	}
	return waitInLine(ctx, pool, random)
}

func waitInLine(ctx workflow.Context, pool Pool, random *rand.Rand) (Permit, error) {
	self := workflow.GetInfo(ctx).WorkflowExecution
	place := ticket{
		ID:      fmt.Sprintf("%s/%d", self.RunID, random.Int63()),
		Waiter:  execution{WorkflowID: self.ID, RunID: self.RunID},
		Slots:   pool.Capacity,
		SinceMs: workflow.Now(ctx).UnixMilli(),
	}
	turns := workflow.GetSignalChannel(ctx, "permit-turn")
	onTurn := false
	defer func() {
		if !onTurn { // after a claim on a turn, the queue hears when the permit ends
			tell(ctx, pool.queueID(), "", "declined", declined{TicketID: place.ID})
		}
	}()
	if err := enqueue(ctx, pool, place); err != nil {
		return Permit{}, err
	}
	for silence := firstSilence; ; {
		var next turn
		heard, _ := turns.ReceiveWithTimeout(ctx, silence, &next)
		switch {
		case ctx.Err() != nil:
			return Permit{}, ctx.Err()
		case !heard: // The queue may be gone or stuck: line up anew, and try a slot.
			if err := enqueue(ctx, pool, place); err != nil {
				return Permit{}, err
			}
			permit, err := claim(ctx, pool, strconv.Itoa(random.Intn(pool.Capacity)), "")
			if !errors.Is(err, errHeld) {
				return permit, err
			}
			silence = min(6*silence, longestSilence)
		case next.TicketID != place.ID: // The turn is of an earlier acquire: pass it on.
			tell(ctx, next.QueueID, "", "declined", declined{next.TicketID, next.Slot})
		case next.Slot == "": // The queue is full.
			silence = queueFullSilence
		case !pool.mayClaim(next): // Anybody may have sent it: go on waiting.
		default:
			permit, err := claim(ctx, pool, next.Slot, next.QueueID)
			if !errors.Is(err, errHeld) {
				onTurn = err == nil
				return permit, err
			}
			if !tell(ctx, next.QueueID, "", "missed", missed{place, next.Slot}) { // The queue is gone: line up anew.
				if err := enqueue(ctx, pool, place); err != nil {
					return Permit{}, err
				}
			}
			silence = firstSilence
		}
	}
}

// enqueue lines up, and starts the queue if there is none, unless somebody else has just done so.
func enqueue(ctx workflow.Context, pool Pool, place ticket) error {
	uncancelled, _ := workflow.NewDisconnectedContext(ctx)
	for range enqueueAttempts {
		if tell(ctx, pool.queueID(), "", "enqueue", place) {
			return nil
		}
		options := workflow.WithChildOptions(uncancelled, workflow.ChildWorkflowOptions{
			WorkflowID:        pool.queueID(),
			TaskQueue:         pool.TaskQueue,
			ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_ABANDON,
			Priority:          priority,
		})
		input := map[string]any{"tickets": []ticket{place}}
		queue := workflow.ExecuteChildWorkflow(options, "waitQueueWorkflow", input)
		err := queue.GetChildWorkflowExecution().Get(uncancelled, nil)
		if !temporal.IsWorkflowExecutionAlreadyStartedError(err) {
			return err
		}
	}
	return nil
}

// claim is the atomic step. A start cannot be recalled: claim awaits its end, and gives the permit back if the caller was
// cancelled meanwhile. It fails with errHeld when the slot is held.
func claim(ctx workflow.Context, pool Pool, slot, watchedBy string) (Permit, error) {
	if ctx.Err() != nil {
		return Permit{}, ctx.Err()
	}
	uncancelled, _ := workflow.NewDisconnectedContext(ctx)
	permit, err := startPermit(uncancelled, pool, slot, watchedBy)
	if err == nil && ctx.Err() != nil {
		permit.release(uncancelled)
		return Permit{}, ctx.Err()
	}
	return permit, err
}

func startPermit(ctx workflow.Context, pool Pool, slot, watchedBy string) (Permit, error) {
	info := workflow.GetInfo(ctx)
	holder := execution{info.WorkflowExecution.ID, info.WorkflowExecution.RunID, info.WorkflowType.Name}
	options := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:               pool.permitID(slot),
		TaskQueue:                pool.TaskQueue,
		Memo:                     map[string]any{"leaseMs": pool.LeaseMs, "holder": holder},
		ParentClosePolicy:        enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
		WorkflowExecutionTimeout: maxHold,
		Priority:                 priority,
	})
	child := workflow.ExecuteChildWorkflow(options, "permitSlotWorkflow", permitInput{pool.LeaseMs, holder, watchedBy})
	var run workflow.Execution
	err := child.GetChildWorkflowExecution().Get(ctx, &run)
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return Permit{}, errHeld
	}
	return Permit{Slot: slot, RunID: run.RunID, id: run.ID, ended: child}, err
}

// tell signals, and awaits the server's answer, also when ctx is cancelled. False: no such Workflow runs.
func tell(ctx workflow.Context, workflowID, runID, signal string, payload any) bool {
	uncancelled, _ := workflow.NewDisconnectedContext(ctx)
	err := workflow.SignalExternalWorkflow(uncancelled, workflowID, runID, signal, payload).Get(uncancelled, nil)
	var notFound *temporal.UnknownExternalWorkflowExecutionError
	if err != nil && !errors.As(err, &notFound) {
		workflow.GetLogger(ctx).Warn("Signal refused", "to", workflowID, "signal", signal, "error", err)
	}
	return err == nil
}
