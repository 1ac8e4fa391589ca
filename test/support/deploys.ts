import { randomUUID } from 'node:crypto';
import { inspect } from 'node:util';
import type { WorkflowHandle } from '@temporalio/client';
import { Worker } from '@temporalio/worker';
import { bundleWorkflows } from '../../scripts/support/workflow-bundles';
import type { SemaphoreOptions } from '../../src/workflow';
import type { DeployedInput, deployed } from './deployed-workflows';
import type { Temporal } from './temporal';

const WORKFLOWS = require.resolve('./deployed-workflows');

/** An application whose code declares one semaphore, and of which one version is deployed at a time. */
export class DeployedApplication {
  private readonly taskQueue = `deployed-${randomUUID()}`;
  private stop: () => Promise<void> = async () => undefined;

  constructor(
    private readonly temporal: Temporal,
    readonly resource: string,
  ) {}

  /** The code that has these options in it, `undefined` too. */
  async bundle(options: SemaphoreOptions): Promise<{ code: string }> {
    const bundle = (await bundleWorkflows(WORKFLOWS)) as { code: string };
    const declared = { resource: this.resource, options: { taskQueue: this.temporal.taskQueue, ...options } };
    return { code: bundle.code.replace(/(['"])DEPLOYED\1/, () => inspect(declared, { depth: null })) };
  }

  /** Stops the version that runs, and starts one with these options. No Workflow stays in a cache: each task replays. */
  async deploy(options: SemaphoreOptions): Promise<void> {
    await this.stop();
    const worker = await Worker.create({
      connection: this.temporal.env.nativeConnection,
      workflowBundle: await this.bundle(options),
      taskQueue: this.taskQueue,
      maxCachedWorkflows: 0,
    });
    const run = worker.run();
    this.stop = async () => {
      if (worker.getState() === 'RUNNING') worker.shutdown();
      await run;
    };
  }

  async start(input: DeployedInput = {}): Promise<WorkflowHandle<typeof deployed>> {
    return await this.temporal.client.workflow.start<typeof deployed>('deployed', {
      taskQueue: this.taskQueue,
      workflowId: `deployed-${randomUUID()}`,
      args: [input],
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}
