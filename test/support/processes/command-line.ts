/** Command lines in files, compared with the command tree. */
import type { Command } from 'commander'
import { programFor } from '../../../commands/program.ts'

export interface Parsed {
  /** the command that would run: "sources sync"; null for a refused line */
  readonly name: string | null
  /** reason of the refusal */
  readonly problem: string | null
}

/** Parses `dms words…` as the program does, without running the action. */
export async function parseWords(words: readonly string[]): Promise<Parsed> {
  const quiet = { isTTY: false, write: () => true } as unknown as NodeJS.WriteStream
  const { program } = await programFor({ env: { HOME: '/nonexistent' }, stdin: process.stdin, stdout: quiet, stderr: quiet })
  let name: string | null = null
  const each = (command: Command, before: readonly string[]): void => {
    if (command.commands.length === 0)
      command.action(() => {
        name = before.join(' ')
      })
    for (const below of command.commands) each(below, [...before, below.name()])
  }
  each(program, [])
  try {
    await program.parseAsync([...words], { from: 'user' })
    return { name, problem: name === null ? 'a word that only holds others' : null }
  } catch (error) {
    const { code, message } = error as { code?: string; message: string }
    return code === 'commander.helpDisplayed' || code === 'commander.version'
      ? { name: words.join(' '), problem: null }
      : { name: null, problem: message }
  }
}

/** Returns the words after each `dms` that shell code, or a crontab, runs. */
export function commandLines(shell: string): string[][] {
  return shell.split('\n').flatMap((line) => segments(line).flatMap(dmsWords))
}

/** Splits a line at `|`, `;`, `&`, `$(…)` and comments into the words of each part, without redirections. */
function segments(line: string): string[][] {
  const found: string[][] = [[]]
  const tokens = line.matchAll(
    /(?:^|\s)(#.*)$|(\d?>+&?\s*[^\s;|&)]*|<\s*[^\s;|&()]+)|((?:'[^']*'|"[^"]*"|\\.|\$\w+|[^\s'"|;&()<>$\\])+)|(\$\(|[|;&()])/g,
  )
  for (const [, comment, , word, separator] of tokens) {
    if (comment !== undefined) break
    if (separator !== undefined) found.push([])
    else if (word !== undefined) found.at(-1)?.push(word.replace(/^(['"])(.*)\1$/, '$2'))
  }
  // What is run inside of quotes.
  const inner = [...line.matchAll(/"[^"]*\$\(([^)]*)\)[^"]*"/g)].flatMap(([, text = '']) => segments(text))
  return [...found, ...inner]
}

/** Programs whose argument `dms` is a package, a user, a unit or a path. */
const otherPrograms = new Set(['systemctl', 'install', 'useradd', 'userdel', 'journalctl', 'apt', 'npm', 'command', 'ln', '#'])

/** Returns the last word of a program that is neither a user (crontab, sudo) nor the value of a flag. */
function dmsWords(words: readonly string[]): string[][] {
  if (otherPrograms.has(words[0] ?? '')) return []
  const at = words.findIndex((word, index) => word === 'dms' && words[index + 1] !== 'dms' && !/^-[ugo]$/.test(words[index - 1] ?? ''))
  if (at === -1) return []
  // xargs adds what comes down the pipe.
  return [[...words.slice(at + 1), ...(words.slice(0, at).includes('xargs') ? ['ID'] : [])]]
}
