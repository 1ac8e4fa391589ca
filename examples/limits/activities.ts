import { setTimeout } from 'node:timers/promises';

export async function callVendor(name: string): Promise<void> {
  console.log(`the vendor begins with ${name}`);
  await setTimeout(300);
  console.log(`the vendor is done with ${name}`);
}
