import { refuse } from '../client/operators';
import { isLoopback } from './access';

/** The dev server's Web UI answers this far above its own port. */
const DEV_UI_OFFSET = 1_000;

/**
 * Where the Temporal Web UI is, without a slash at the end; `undefined` when nobody knows.
 * @param given by the user; otherwise it is guessed for Temporal Cloud and for a server on this machine
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
