/** Prompts. Without a terminal a prompt is a usage error that names the flag to pass. */
import { escapeControls } from '../../log/escape.ts'
import { Failure, usage } from '../runtime/exit.ts'
import type { GlobalOptions } from '../runtime/options.ts'

type PromptOptions = Pick<GlobalOptions, 'canPrompt'>

/** Inquirer draws on standard output by default, which is for results. */
const context = { output: process.stderr, clearPromptOnDone: false }

/** Asks for confirmation, which --yes replaces. Throws Failure FAILED if the answer is no. */
export async function confirm(options: PromptOptions & Partial<Pick<GlobalOptions, 'printCurl'>>, question: string): Promise<void> {
  if (options.printCurl) return
  requireTerminal(options, question, '--yes')
  const { confirm: ask } = await import('@inquirer/prompts')
  if (!(await ask({ message: escapeControls(question), default: false }, context)))
    throw new Failure('FAILED', 'cancelled; nothing was changed')
}

/** Asks for a secret without echo, and for its repetition if it is new. Throws Failure USAGE if the two differ. */
export async function promptPassword(options: PromptOptions, question: string, flag: string, { isNew = false } = {}): Promise<string> {
  requireTerminal(options, question, flag)
  const { password: ask } = await import('@inquirer/prompts')
  // `toggleMask: false` disables the key that shows the text.
  const hidden = (message: string): Promise<string> => ask({ message, toggleMask: false }, context)
  const first = await hidden(question)
  if (isNew && (await hidden(`${question} (again)`)) !== first) throw usage('the two passwords differ')
  return first
}

/** Asks for one line of text. */
export async function promptLine(options: PromptOptions, question: string, flag: string): Promise<string> {
  requireTerminal(options, question, flag)
  const { input: ask } = await import('@inquirer/prompts')
  return ask({ message: question, required: true }, context)
}

function requireTerminal({ canPrompt }: PromptOptions, question: string, flag: string): void {
  if (!canPrompt) throw usage(`cannot ask "${question}" (no terminal, or --no-input)`, `pass ${flag}`)
}
