import { setTimeout as delay } from 'node:timers/promises';
import type { ActorProcess } from './actor-process';
import type { Fault } from './faults';
import type { World } from './world';

export const NO_VERSIONS = 'Left out: versioned permit workers, which the actors of another commit may not know';

/** So long a server that is down, or a fault at the other worker, may hold a deployment up. */
const WITHIN_MS = 60_000;

/** So often, operators turn versions off. */
const TURNED_OFF = 0.25;

/**
 * Deploys the permit workers as another version, one after the other, without a break: the first starts as the new version, that becomes the
 * current one, and a while later the other follows. Until then it polls, and gets nothing. They have no version at first.
 */
export const DEPLOY_VERSION: Fault = {
  kind: 'deploy-version',
  weight: 1,
  lastsMs: [3_000, 15_000],
  async inject(world, { luck }) {
    const { deployment } = world;
    const workers = world.ofRole('permits');
    const [first, second] = luck[0] < 0.5 ? workers : workers.reverse();
    if (!first || !second || deployment.isUnderWay || first.isHit) return undefined;
    deployment.isUnderWay = true;
    const isOff = deployment.current !== undefined && luck[1] < TURNED_OFF;
    const version = isOff ? undefined : `v${++deployment.count}`;
    await redeploy(first, version);
    const firstIsCurrent = world.notCurrent(first.name);
    try {
      await setCurrent(world, version);
    } catch (error) {
      await redeploy(first, deployment.current);
      deployment.isUnderWay = false;
      throw error;
    } finally {
      firstIsCurrent();
    }
    deployment.current = version;
    const secondIsCurrent = world.notCurrent(second.name);
    const heal = async () => {
      await until(async () => !second.isHit);
      await redeploy(second, version);
      secondIsCurrent();
      deployment.isUnderWay = false;
    };
    return { target: 'the permit workers', detail: `${first.name} first, ${version ?? 'without a version'}`, heal };
  },
};

/** No other fault is at work on it meanwhile. */
async function redeploy(worker: ActorProcess, version: string | undefined): Promise<void> {
  worker.isHit = true;
  await worker.redeploy(version);
  worker.isHit = false;
}

/** The server learns of a version by the first poll of its worker. */
async function setCurrent({ client, options }: World, version: string | undefined): Promise<void> {
  await until(async () => {
    await client.workflowService.setWorkerDeploymentCurrentVersion({
      namespace: client.options.namespace,
      deploymentName: options.taskQueue,
      buildId: version ?? '',
    });
    return true;
  });
}

/** @throws the last error, or an Error, after a while */
async function until(isDone: () => Promise<boolean>): Promise<void> {
  for (const untilMs = performance.now() + WITHIN_MS; ; await delay(100)) {
    try {
      if (await isDone()) return;
      if (performance.now() > untilMs) throw new Error(`not within ${WITHIN_MS} ms`);
    } catch (error) {
      if (performance.now() > untilMs) throw error;
    }
  }
}
