/** Text of a comment: arguments, a file or standard input. */
import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import { usage } from '../runtime/exit.ts'
import type { GlobalOptions } from '../runtime/options.ts'
import { promptLine } from './prompt.ts'

/** Reads the text from `words`, else from `file` ("-": standard input), else by a prompt. Strips the last line break. Throws Failure USAGE. */
export async function readBodyText(
  options: Pick<GlobalOptions, 'canPrompt'>,
  words: readonly string[],
  file: string | undefined,
): Promise<string> {
  if (words.length > 0 && file !== undefined) throw usage('the text is both an argument and in --body-file', 'pass one of them')
  if (words.length > 0) return words.join(' ')
  if (file === undefined) return promptLine(options, 'Comment:', 'the text, or --body-file FILE')
  try {
    return (file === '-' ? await text(process.stdin) : await readFile(file, 'utf8')).replace(/\r?\n$/, '')
  } catch (error) {
    throw usage(`--body-file: ${(error as Error).message}`)
  }
}
