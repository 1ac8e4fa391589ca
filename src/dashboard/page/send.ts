import { type Action, CSRF_HEADER } from '../page-protocol';

/** Asks the server to do something. @returns why it was not done, or nothing */
export async function send(action: Action, csrfToken: string): Promise<string | undefined> {
  try {
    const answer = await fetch('/actions', {
      method: 'POST',
      headers: { 'content-type': 'application/json', [CSRF_HEADER]: csrfToken },
      body: JSON.stringify(action),
    });
    if (answer.ok) return undefined;
    const text = await answer.text();
    try {
      return (JSON.parse(text) as { error: string }).error;
    } catch {
      return text;
    }
  } catch {
    return 'The dashboard does not answer.';
  }
}
