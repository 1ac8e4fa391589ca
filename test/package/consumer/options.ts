// Under `exactOptionalPropertyTypes`, a user may pass on an option that is `undefined`: it is absent then.
import type {
  ClientAcquireOptions,
  ClientSetOptions,
  ClientWithPermitOptions,
  PermitPoolOptions,
  PoolAcquireOptions,
  SemaphoreClient,
  SemaphoreClientOptions,
  SetEntry,
} from 'temporal-semaphore/client';
import type { PostgresFenceOptions } from 'temporal-semaphore/fencing';
import type {
  InspectOptions,
  OperatorOptions,
  OverrideOptions,
  PauseOptions,
  RevokeOptions,
} from 'temporal-semaphore/operator';
import type { ActivityLimit, Limits, SemaphorePluginOptions } from 'temporal-semaphore/worker';
import type {
  AcquireOptions,
  PreemptibleOptions,
  SemaphoreOptions,
  SetOptions,
  WithPermitOptions,
  WorkflowLimit,
} from 'temporal-semaphore/workflow';

/** The names of the options that refuse an explicit `undefined`. */
type Refusing<Options> = Options extends object
  ? {
      [Name in keyof Options]-?: Record<never, never> extends Pick<Options, Name>
        ? undefined extends Required<Options>[Name]
          ? never
          : Name
        : never;
    }[keyof Options]
  : never;

type All =
  | AcquireOptions
  | ActivityLimit
  | ClientAcquireOptions
  | ClientSetOptions
  | ClientWithPermitOptions
  | InspectOptions
  | Limits
  | OperatorOptions
  | OverrideOptions
  | PauseOptions
  | PermitPoolOptions
  | PoolAcquireOptions
  | PostgresFenceOptions
  | PreemptibleOptions
  | RevokeOptions
  | SemaphoreClientOptions
  | SemaphoreOptions
  | SemaphorePluginOptions
  | SetEntry<SemaphoreClient>
  | SetOptions
  | WithPermitOptions
  | WorkflowLimit;

/** It does not compile while any is left: the error names them. */
export const refusing: Record<Refusing<All>, never> = {};
