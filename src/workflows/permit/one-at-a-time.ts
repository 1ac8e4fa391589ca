/**
 * Has at most one message under way, and at most one more to follow it, however often it is called. Anybody may ask a permit
 * thousands of times, and the server takes 2,000 messages at once: with more, the task fails for ever.
 */
export function oneAtATime(send: () => Promise<unknown>): () => void {
  let isUnderWay = false;
  let isDue = false;
  const sendWhileDue = async () => {
    isUnderWay = true;
    for (; isDue; await send()) isDue = false;
    isUnderWay = false;
  };
  return () => {
    isDue = true;
    if (!isUnderWay) void sendWhileDue();
  };
}
