/**
 * For workers: lets activities called inside `withPermit` know the permit's fencing token. Kept apart from
 * `temporal-semaphore/fencing`, which services without a Temporal worker load.
 *
 * @module
 */
import './shared/oldest-sdk';

export { fencingActivityInterceptor, fencingInterceptors } from './fencing/activity-interceptor';
