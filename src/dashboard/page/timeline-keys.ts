/** Moves the focus by arrow keys: along a row, and to the nearest bar of the next row that has one. */
export function moveFocus(event: KeyboardEvent): void {
  const from = event.target;
  if (!(from instanceof HTMLElement) || !from.matches('.hold')) return;
  const to = target(from, event.key);
  if (to === undefined) return;
  event.preventDefault();
  to?.focus({ preventScroll: true });
}

/** `undefined` for any other key; `null` when no bar lies that way. */
function target(from: HTMLElement, key: string): HTMLElement | null | undefined {
  const row = from.closest('.row');
  switch (key) {
    case 'ArrowLeft':
      return from.previousElementSibling as HTMLElement | null;
    case 'ArrowRight':
      return from.nextElementSibling as HTMLElement | null;
    case 'ArrowUp':
      return nearest(from, row, 'previousElementSibling');
    case 'ArrowDown':
      return nearest(from, row, 'nextElementSibling');
    default:
      return undefined;
  }
}

function nearest(
  from: HTMLElement,
  row: Element | null,
  next: 'previousElementSibling' | 'nextElementSibling',
): HTMLElement | null {
  const { left } = from.getBoundingClientRect();
  const distance = (bar: HTMLElement) => Math.abs(bar.getBoundingClientRect().left - left);
  for (let other = row?.[next]; other; other = other[next]) {
    const bars = [...other.querySelectorAll<HTMLElement>('.hold')];
    const [first, ...others] = bars;
    if (first) return others.reduce((best, bar) => (distance(bar) < distance(best) ? bar : best), first);
  }
  return null;
}
