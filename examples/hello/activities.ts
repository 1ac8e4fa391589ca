import { heartbeat, sleep } from '@temporalio/activity';

export async function train(model: string, gpu: string): Promise<string> {
  console.log(`${model} starts on GPU ${gpu}`);
  try {
    for (let epoch = 1; epoch <= 6; epoch++) {
      heartbeat(epoch);
      await sleep('1s'); // throws when the activity is cancelled
    }
    return `${model} was trained on GPU ${gpu}`;
  } finally {
    console.log(`${model} leaves GPU ${gpu}`);
  }
}
