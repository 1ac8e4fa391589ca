import type { KeysView } from '../page-protocol';
import { count } from './format';
import { Cut } from './names';

/** The keys of a resource that are in use. Each opens as a resource of its own, with its holders, its line and its limit. */
export function Keys({ keys, text }: { keys: KeysView; text: string }) {
  const shown = keys.first.filter(({ resource }) => resource.toLowerCase().includes(text.toLowerCase()));
  return (
    <section aria-labelledby="keys">
      <h3 id="keys">
        Keys <small>{keys.count}, found some seconds ago</small>
      </h3>
      {shown.length === 0 && <p class="empty">No key matches.</p>}
      <ul class="rows">
        {shown.map(({ resource, held, isQueued }) => (
          <li key={resource}>
            <a class="party" href={`#${encodeURIComponent(resource)}`} title={resource}>
              <Cut text={resource} />
            </a>
            <span class="tags">{isQueued && <span class="badge">with a queue</span>}</span>
            <span class="time">{held} held</span>
          </li>
        ))}
      </ul>
      {keys.count > keys.first.length && (
        <p class="empty">… and {count(keys.count - keys.first.length, 'more key')}.</p>
      )}
    </section>
  );
}
