import type { Command } from 'commander';

const HELP = `
Example:
  source <(temporal-semaphore completion bash)      # in ~/.bashrc; zsh in ~/.zshrc likewise
  temporal-semaphore completion fish > ~/.config/fish/completions/temporal-semaphore.fish
`;

/** Completes commands, flags and their choices, as commander knows them. The shell runs this program, with `complete`, at each TAB. */
export async function addCompletion(program: Command): Promise<void> {
  const { default: tab } = await import('@bomb.sh/tab/commander');
  tab(program, { completionCommandName: 'completion' });
  program.commands.find((command) => command.name() === 'completion')?.addHelpText('after', HELP);
}
