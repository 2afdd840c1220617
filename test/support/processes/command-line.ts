/** Command lines that stand in files, held against the program's own tree. */
import type { Command } from 'commander'
import { programFor } from '../../../commands/program.ts'

export interface Parsed {
  /** the command that would run: "sources sync"; null where the line is refused */
  readonly name: string | null
  /** why it is refused */
  readonly problem: string | null
}

/** Parses `dms words…` as the program does, up to the action, which is left out. */
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

/** The words after each `dms` that a piece of shell, or a crontab, runs. */
export function commandLines(shell: string): string[][] {
  return shell.split('\n').flatMap((line) => segments(line).flatMap(dmsWords))
}

/** What `|`, `;`, `&`, `$(…)` and comments leave of a line, each as its words; redirections are left out. */
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

/** The last name of the program that is no user's (crontab, sudo) and no flag's value. */
function dmsWords(words: readonly string[]): string[][] {
  if (otherPrograms.has(words[0] ?? '')) return []
  const at = words.findIndex((word, index) => word === 'dms' && words[index + 1] !== 'dms' && !/^-[ugo]$/.test(words[index - 1] ?? ''))
  if (at === -1) return []
  // xargs adds what comes down the pipe.
  return [[...words.slice(at + 1), ...(words.slice(0, at).includes('xargs') ? ['ID'] : [])]]
}
