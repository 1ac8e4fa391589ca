import { DefaultLogger, makeTelemetryFilterString, Runtime } from '@temporalio/worker';

/** Lets workers log errors only. They would warn of each activity that fails, and one fails here on purpose. */
export function quiet(): void {
  Runtime.install({
    logger: new DefaultLogger('ERROR'),
    telemetryOptions: { logging: { filter: makeTelemetryFilterString({ core: 'ERROR', other: 'ERROR' }) } },
  });
}
