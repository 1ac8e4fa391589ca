import { type Payload, type PayloadConverter, RawValue } from '@temporalio/common';
import { maybeGetActivator } from './lenient-converter';

/**
 * Has the SDK hand over the payloads of these signals unchanged, each as a `RawValue`, and send each `RawValue` unchanged. From SDK 1.24 on,
 * `typeInfo` does this for a signal; older SDKs ignore it. Delete this file when their support ends.
 */
export function handOverRaw(signalNames: readonly string[]): void {
  const activator = maybeGetActivator();
  if (!activator) return;
  const raw = new WeakSet<Payload>();
  activator.interceptors.internals.push({
    activate(input, next) {
      for (const { signalWorkflow } of input.activation.jobs ?? []) {
        if (!signalWorkflow || !signalNames.includes(signalWorkflow.signalName ?? '')) continue;
        for (const payload of signalWorkflow.input ?? []) raw.add(payload);
      }
      next(input);
    },
  });
  activator.payloadConverter = new RawPassingConverter(activator.payloadConverter, raw);
}

class RawPassingConverter implements PayloadConverter {
  constructor(
    private readonly converter: PayloadConverter,
    private readonly raw: WeakSet<Payload>,
  ) {}

  toPayload(...args: Parameters<PayloadConverter['toPayload']>): Payload {
    const [value] = args;
    return value instanceof RawValue ? value.payload : this.converter.toPayload(...args);
  }

  fromPayload<T>(...args: Parameters<PayloadConverter['fromPayload']>): T {
    const [payload] = args;
    return this.raw.has(payload) ? (RawValue.fromPayload(payload) as T) : (this.converter.fromPayload(...args) as T);
  }
}
