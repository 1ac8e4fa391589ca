import { useEffect, useRef } from 'preact/hooks';

interface SearchProps {
  text: string;
  search: (text: string) => void;
}

/** Finds holders, waiters, purposes and slots in all resources. */
export function Search({ text, search }: SearchProps) {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const isTyping = event.target instanceof Element && event.target.closest('input, dialog') !== null;
      if (event.key !== '/' || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      input.current?.focus();
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, []);
  return (
    <search>
      <input
        ref={input}
        type="search"
        aria-label="Find a holder, waiter, purpose or slot"
        placeholder="Find a holder, waiter, purpose or slot  ( / )"
        value={text}
        onInput={({ currentTarget }) => search(currentTarget.value)}
        onKeyDown={({ key }) => key === 'Escape' && search('')}
      />
    </search>
  );
}
