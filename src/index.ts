/**
 * There is no root entry: Workflow code, clients and workers load different parts of the SDK.
 *
 * @module
 */
throw new Error(
  'Import an entry of temporal-semaphore: temporal-semaphore/workflow in Workflow code, temporal-semaphore/client in activities, ' +
    "services and scripts, temporal-semaphore/workflows in the file of a worker's workflowsPath. Others are /worker, /operator and /fencing.",
);

export {};
