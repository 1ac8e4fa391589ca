/** What the recipes call. A real program has its own. */
export interface RecipeActivities {
  nextNumber(order: string): Promise<number>;
  train(dataset: string, gpu: string): Promise<string>;
  ask(tenant: string, question: string): Promise<{ status: 200; text: string } | { status: 429; retryAfterMs: number }>;
  readTable(): Promise<string[]>;
  writeTable(row: string): Promise<void>;
  send(message: string): Promise<void>;
  embed(page: number): Promise<void>;
}
