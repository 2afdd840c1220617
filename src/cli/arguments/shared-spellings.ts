/** Rewrites the command line before it is parsed: command flags that are spelled like global flags, and the line to be completed. */
import type { Command, Option } from 'commander'

/** Verbs of `sources` whose --url can mean the address of the source. */
const addressVerbs = ['add', 'test', 'update']

/**
 * Renames flags that a command shares with the program, and returns the new line.
 * - `labels`: --color with a value that begins with "#" becomes --colour.
 * - `sources add`, `sources test` without a source, `sources update` without another change: --url becomes --address.
 * - `complete KIND -- LINE`: only the flags that select a server, and the last word, remain of the line.
 */
export function rewriteLine(program: Command, argv: readonly string[]): readonly string[] {
  const [group, verb] = indexWords(program.options, argv)
  if (group === undefined || verb === undefined) return argv
  const command = program.commands.find((each) => each.name() === argv[group])
  if (argv[group] === 'complete') return [...argv.slice(0, verb + 1), ...targetFlagsOf(program, argv.slice(verb + 1))]
  if (argv[group] === 'labels') return rename(argv, '--color', '--colour', (value) => value.startsWith('#'))
  if (argv[group] !== 'sources' || !addressVerbs.includes(argv[verb] ?? '')) return argv
  const options = command?.commands.find((each) => each.name() === argv[verb])?.options ?? []
  const rest = argv.slice(verb + 1)
  const has = (option: Option) => rest.some((word) => word === option.long || word.startsWith(`${option.long}=`))
  const isOwn =
    argv[verb] === 'add' || (argv[verb] === 'test' ? indexWords([...program.options, ...options], rest).length === 0 : !options.some(has))
  if (!isOwn || rest.some((word) => /^--address(=|$)/.test(word))) return argv
  return [...argv.slice(0, verb + 1), ...rename(rest, '--url', '--address', () => true)]
}

/** Returns the positions of all words except flags and their values. */
function indexWords(options: readonly Option[], argv: readonly string[]): number[] {
  const indexes: number[] = []
  let isValue = false
  for (const [index, word] of argv.entries()) {
    if (word === '--') break
    if (!isValue && !word.startsWith('-')) indexes.push(index)
    isValue = !isValue && takesNextWord(options, word)
  }
  return indexes
}

/** Returns whether the next word is the value of this flag. Of bundled short flags (`-qc FILE`), only the last letter takes it. */
export function takesNextWord(options: readonly Option[], word: string): boolean {
  if (!/^-[^-]/.test(word)) return options.some(({ long, required }) => required && word === long)
  const takesValue = (letter: string) => options.some(({ short, required }) => required && short === `-${letter}`)
  const letters = word.slice(1)
  return takesValue(letters.at(-1) ?? '') && ![...letters.slice(0, -1)].some(takesValue)
}

const targetFlags = ['--config', '--data-dir', '--local', '--context', '--url', '--ca-file', '--insecure-http', '--as', '--timeout']

/** Returns the flags that select a server, with their values, and the last word. */
function targetFlagsOf({ options }: Command, words: readonly string[]): string[] {
  const kept: string[] = []
  for (const [index, word] of words.slice(0, -1).entries()) {
    const option = options.find(({ short, long }) => word === short || word === long || word.startsWith(`${long}=`))
    if (!option?.long || !targetFlags.includes(option.long)) continue
    kept.push(word, ...(option.required && !word.includes('=') ? [words[index + 1] ?? ''] : []))
  }
  return [...kept, '--', words.at(-1) ?? '']
}

const rename = (argv: readonly string[], from: string, to: string, accepts: (value: string) => boolean): string[] =>
  argv.map((word, index) => {
    if (word === from && accepts(argv[index + 1] ?? '')) return to
    return word.startsWith(`${from}=`) && accepts(word.slice(from.length + 1)) ? to + word.slice(from.length) : word
  })
