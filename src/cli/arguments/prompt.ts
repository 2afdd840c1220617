/** Questions to a person. Without a person it is a usage error that names the flag to pass; never a hang, never an answer from a pipe. */
import { escapeControls } from '../../log/escape.ts'
import { Failure, usage } from '../runtime/exit.ts'
import type { GlobalOptions } from '../runtime/options.ts'

type Asking = Pick<GlobalOptions, 'canPrompt'>

/** inquirer draws on standard output unless told otherwise, and that is for data. */
const context = { output: process.stderr, clearPromptOnDone: false }

/** Goes on when the answer is yes, and where nothing would be done anyway; `flag` is what says yes without a question ("--yes"). Throws Failure when it is no. */
export async function confirm(options: Asking & Partial<Pick<GlobalOptions, 'printCurl'>>, question: string, flag: string): Promise<void> {
  if (options.printCurl) return
  requireTerminal(options, question, flag)
  const { confirm: ask } = await import('@inquirer/prompts')
  if (!(await ask({ message: escapeControls(question), default: false }, context))) throw new Failure('FAILED', 'nothing was changed')
}

/** A secret that does not appear while it is typed; asked for twice where it is a new one. */
export async function promptPassword(options: Asking, question: string, flag: string, isNew = false): Promise<string> {
  requireTerminal(options, question, flag)
  const { password: ask } = await import('@inquirer/prompts')
  // Without the key that makes the text visible, which inquirer offers.
  const hidden = (message: string): Promise<string> => ask({ message, toggleMask: false }, context)
  const first = await hidden(question)
  if (isNew && (await hidden(`${question} (again)`)) !== first) throw usage('the two are not the same')
  return first
}

/** One line of text. */
export async function promptLine(options: Asking, question: string, flag: string): Promise<string> {
  requireTerminal(options, question, flag)
  const { input: ask } = await import('@inquirer/prompts')
  return ask({ message: question, required: true }, context)
}

function requireTerminal({ canPrompt }: Asking, question: string, flag: string): void {
  if (!canPrompt) throw usage(`"${question}" cannot be asked here (no terminal, or --no-input)`, `pass ${flag}`)
}
