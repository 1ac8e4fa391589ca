import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import type { Payload, PayloadCodec } from '@temporalio/common';

const ENCODING = 'binary/encrypted';
const IV_BYTES = 12;
const TAG_BYTES = 16;

/** Encrypts every payload, as a user with secrets would. */
export class AesGcmCodec implements PayloadCodec {
  constructor(private readonly key: Buffer) {}

  async encode(payloads: Payload[]): Promise<Payload[]> {
    return payloads.map(({ metadata, data }) => {
      const fields = Object.entries(metadata ?? {}).map(([name, value]) => [
        name,
        Buffer.from(value).toString('base64'),
      ]);
      const plain = JSON.stringify({ fields, data: Buffer.from(data ?? []).toString('base64') });
      const iv = randomBytes(IV_BYTES);
      const cipher = createCipheriv('aes-256-gcm', this.key, iv);
      const secret = Buffer.concat([cipher.update(plain), cipher.final()]);
      return {
        metadata: { encoding: Buffer.from(ENCODING) },
        data: Buffer.concat([iv, cipher.getAuthTag(), secret]),
      };
    });
  }

  async decode(payloads: Payload[]): Promise<Payload[]> {
    return payloads.map((payload) => {
      if (Buffer.from(payload.metadata?.encoding ?? []).toString() !== ENCODING) return payload;
      const data = Buffer.from(payload.data ?? []);
      const decipher = createDecipheriv('aes-256-gcm', this.key, data.subarray(0, IV_BYTES));
      decipher.setAuthTag(data.subarray(IV_BYTES, IV_BYTES + TAG_BYTES));
      const plain = Buffer.concat([decipher.update(data.subarray(IV_BYTES + TAG_BYTES)), decipher.final()]);
      const { fields, data: inner } = JSON.parse(plain.toString()) as { fields: [string, string][]; data: string };
      return {
        metadata: Object.fromEntries(fields.map(([name, value]) => [name, Buffer.from(value, 'base64')])),
        data: Buffer.from(inner, 'base64'),
      };
    });
  }
}
