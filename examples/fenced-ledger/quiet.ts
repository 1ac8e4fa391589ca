import { DefaultLogger, makeTelemetryFilterString, Runtime } from '@temporalio/worker';

/** Lets workers log errors only: they warn of each activity that fails, as one is to do here. */
export function quiet(): void {
  Runtime.install({
    logger: new DefaultLogger('ERROR'),
    telemetryOptions: { logging: { filter: makeTelemetryFilterString({ core: 'ERROR', other: 'ERROR' }) } },
  });
}
