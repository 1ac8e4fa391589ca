/** Run IDs like those of the server (UUIDv7), each greater than the one before. */
export function runIds(count: number, fromMs = Date.UTC(2025, 0)): string[] {
  return Array.from({ length: count }, (_, index) => {
    const time = (fromMs + index).toString(16).padStart(12, '0');
    return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${index.toString(16).padStart(12, '0')}`;
  });
}
