/** Rewrites the command line before it is parsed: command flags that are spelled like global flags, and the line to be completed. */
import type { Command, Option } from 'commander'

/** Verbs of `sources` whose --url can mean the address of the source. */
const addressVerbs = ['add', 'test', 'update']

/**
 * Renames flags that a command shares with the program, and returns the new line.
 * - `labels`: --color with a value that begins with "#" becomes --colour.
 * - `sources add`, `sources test` without a source, `sources update` without another change: --url becomes --address.
 * - `complete KIND -- LINE`: keeps only the flags of LINE that select a server, and its last word. `complete line -- LINE` keeps all words.
 */
export function rewriteLine(program: Command, argv: readonly string[]): readonly string[] {
  const [group, verb] = indexWords(program.options, argv)
  if (group === undefined || verb === undefined) return argv
  const command = program.commands.find((each) => each.name() === argv[group])
  if (argv[group] === 'complete')
    return [...argv.slice(0, verb + 1), ...linePartsOf(program, argv.slice(verb + 1), { isWhole: argv[verb] === 'line' })]
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

/** Returns whether the next word is the value of this flag. */
export function takesNextWord(options: readonly Option[], word: string): boolean {
  const { option, value } = parseFlag(options, word)
  return option?.required === true && value === undefined
}

/** Returns the flag of a word, and its value if the word contains it. Of bundled short flags (`-qc FILE`), this is the first that takes a value, else the last. */
function parseFlag(options: readonly Option[], word: string): { option: Option | undefined; value?: string } {
  if (!/^-[^-]/.test(word)) {
    const [, name, value] = /^(--[^=]+)(?:=(.*))?$/s.exec(word) ?? []
    return { option: options.find(({ long }) => long === name), value }
  }
  const letters = [...word.slice(1)].map((letter) => options.find(({ short }) => short === `-${letter}`))
  const at = letters.findIndex((option) => option?.required)
  const rest = [...word].slice(at + 2).join('')
  return at < 0 ? { option: letters.at(-1) } : { option: letters[at], value: rest || undefined }
}

const targetFlags = ['--config', '--data-dir', '--local', '--context', '--url', '--ca-file', '--insecure-http', '--as', '--timeout']

/**
 * Returns the flags that select a server, with their values, then `--` and the last word. With `isWhole`, all words follow the `--`, and `words` must
 * be unquoted already.
 */
function linePartsOf({ options }: Command, words: readonly string[], { isWhole }: { isWhole: boolean }): string[] {
  const flags: string[] = []
  const typed = isWhole ? words.slice(0, -1) : words.slice(0, -1).map(unquote)
  for (const [index, word] of typed.entries()) {
    const { option, value = typed[index + 1] ?? '' } = parseFlag(options, word)
    // A flag without its value is the one to complete.
    if (!option?.long || !targetFlags.includes(option.long) || (option.required && value === '')) continue
    flags.push(option.long, ...(option.required ? [value] : []))
  }
  return [...flags, '--', ...(isWhole ? words.slice(words.indexOf('--') + 1) : [words.at(-1) ?? ''])]
}

/** Returns the value of a word as it is typed in a shell. Expands no variables. */
const unquote = (word: string): string =>
  word.replace(/^~(?=\/|$)/, () => process.getBuiltinModule('node:os').homedir()).replace(/\\(.)|["']/gs, '$1')

const rename = (argv: readonly string[], from: string, to: string, accepts: (value: string) => boolean): string[] =>
  argv.map((word, index) => {
    if (word === from && accepts(argv[index + 1] ?? '')) return to
    return word.startsWith(`${from}=`) && accepts(word.slice(from.length + 1)) ? to + word.slice(from.length) : word
  })
