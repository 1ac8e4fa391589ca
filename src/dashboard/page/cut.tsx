/** IDs differ at their ends more often than in the middle. */
const END = 8;

/** A name that is cut in its middle where the room is too small for it. */
export function Cut({ text }: { text: string }) {
  const characters = [...text];
  const at = Math.max(0, characters.length - END);
  return (
    <span class="cut">
      <span>{characters.slice(0, at).join('')}</span>
      <span>{characters.slice(at).join('')}</span>
    </span>
  );
}
