import { refuse } from '../client/operators';
import { isLoopback } from './access';

/** The port of a dev server's Web UI is its own port plus this. */
const DEV_UI_OFFSET = 1_000;

/**
 * The URL of the Temporal Web UI, without a slash at the end; `undefined` when it is not known.
 * @param given the user's URL; without it, this guesses for Temporal Cloud and for a server on this machine
 */
export function webUiOf(address: string, given?: string): string | undefined {
  if (given !== undefined) {
    const { protocol } = URL.canParse(given) ? new URL(given) : { protocol: '' };
    if (protocol !== 'http:' && protocol !== 'https:') refuse('ui', 'a URL of http or https', given);
    return given.replace(/\/+$/, '');
  }
  const { hostname, port } = new URL(`tcp://${address}`);
  if (/\.(tmprl\.cloud|api\.temporal\.io)$/.test(hostname)) return 'https://cloud.temporal.io';
  return isLoopback(hostname) ? `http://${hostname}:${Number(port || 7233) + DEV_UI_OFFSET}` : undefined;
}
