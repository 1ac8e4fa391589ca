import { type Action, CSRF_HEADER } from '../page-protocol';

/** Asks the server to carry out an action. @returns why that failed; `undefined` when it is done */
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
    return "The dashboard's server does not answer.";
  }
}
