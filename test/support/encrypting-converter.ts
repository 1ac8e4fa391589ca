import type { DataConverter } from '@temporalio/common';
import { AesGcmCodec } from './aes-gcm-codec';

/** For the command line's `--data-converter`. */
export const dataConverter: DataConverter = { payloadCodecs: [new AesGcmCodec(Buffer.alloc(32, 7))] };
