/** The tree of words, the flags of all, and the one catch that turns whatever happens into an exit code and a line on standard error. */
import { Command, Help, Option } from 'commander'
import { humanLines, jsonLine, withPlace, withWait } from '../src/cli/output/error-lines.ts'
import { boxWrap, minWidthToWrap } from '../src/cli/output/manual.ts'
import { createCli, exitAfter, type OwnedCli } from '../src/cli/runtime/context.ts'
import { exitOf, exits, Failure, isShown } from '../src/cli/runtime/exit.ts'
import { withFlags } from '../src/cli/runtime/field-flags.ts'
import { addGlobalOptions, type Terminal, widthOf } from '../src/cli/runtime/options.ts'
import { environment } from '../src/config/environment.ts'
import { isJournal } from '../src/log/systemd-journal.ts'
import { versionOfDms } from '../src/version.ts'
import { words } from './command-table.ts'

/** Runs one command line (without the program's name) and answers its exit code. Never throws. */
export async function main(argv: readonly string[]): Promise<number> {
  // Without a listener this signal opens Node's debugger to everybody on the machine.
  process.on('SIGUSR1', () => {})
  const { stdout, stderr } = process
  // Standard input is opened by those who read it.
  return run(argv, {
    env: environment(),
    stdout,
    stderr,
    get stdin() {
      return process.stdin
    },
  })
}

/** The same on another terminal. */
export async function run(argv: readonly string[], terminal: Streams): Promise<number> {
  const { program, cli } = await programFor(terminal, argv)
  const code = await codeOf(program, cli, argv)
  return words[firstWord(program, argv) ?? '']?.isProbe && code > 1 ? 1 : code
}

async function codeOf(program: Command, cli: OwnedCli, argv: readonly string[]): Promise<number> {
  let command = program
  program.hook('preAction', (_, running) => {
    command = running
  })
  const failed = await failureOf(() => runInTime(program, cli, argv))
  const closing = failureOf(() => cli.end())
  const unclosed = failed?.error instanceof TooLate ? await within(closingTime, closing) : await closing
  const failure = failed ?? unclosed
  if (!failure) return exits[exitAfter(cli)][0]
  const isAborted = failure.error instanceof Error && failure.error.name === 'AbortError'
  if (isAborted && cli.stop?.exit) return exits[cli.stop.exit][0]
  // What was broken off says that it was; why, only the signal knows: --timeout.
  const isLate = isAborted && cli.stop?.signal.aborted
  const error = isLate ? cli.stop?.signal.reason : withPlace(failure.error)
  const canWait = command.options.some(({ long }) => long === '--lock-timeout')
  if (!isShown(error)) report(withFlags(withWait(asLogged(error, cli), canWait), command), program, cli, isJournal(cli.env) ? '<3>' : '')
  return exits[exitOf(error)][0]
}

export type Streams = Parameters<typeof createCli>[1]

/** The tree of words, and what its commands are handed; of the words that `argv` does not begin with, only what `dms --help` says of them. */
export async function programFor(terminal: Streams, argv?: readonly string[]): Promise<{ program: Command; cli: OwnedCli }> {
  const program = new Command('dms')
  const cli = createCli(program, terminal)
  addFlags(program, cli, terminal)
  const whole = async () => (await programFor(terminal)).program
  const first = argv && firstWord(program, argv)
  for (const [name, { summary, aliases = [], load }] of Object.entries(words)) {
    const isWanted = argv === undefined || [name, ...aliases].some((word) => word === first)
    program.addCommand(isWanted ? (await load())(cli, whole) : new Command(name).summary(summary).aliases(aliases))
  }
  inherit(program)
  return { program, cli }
}

/** The first word of a line that is neither a flag of all commands nor the value of one. */
function firstWord(program: Command, argv: readonly string[]): string | undefined {
  let isValue = false
  return argv.find((word) => {
    if (isValue) {
      isValue = false
      return false
    }
    isValue = program.options.some(({ short, long, required }) => required && (word === short || word === long))
    return !word.startsWith('-')
  })
}

function addFlags(program: Command, cli: OwnedCli, terminal: Pick<Terminal, 'env' | 'stdout'>): void {
  program
    .description('A document management server: stores, reads, searches, syncs and shares documents.')
    .version(versionOfDms(), '-V, --version', 'the version alone')
    .helpCommand(false)
    .exitOverride()
    .configureHelp({ showGlobalOptions: false, minWidthToWrap, subcommandTerm, optionDescription, boxWrap })
    .configureOutput({
      outputError() {},
      writeOut: cli.write,
      getOutHelpWidth: () => widthOf(terminal),
      getErrHelpWidth: () => widthOf(terminal),
    })
  addGlobalOptions(program)
  program.hook('preAction', () => cli.prepare())
}

/** Below `dms` itself the bare words: of most of them nothing else is known there. */
const subcommandTerm: Help['subcommandTerm'] = (command) =>
  command.parent?.parent ? Help.prototype.subcommandTerm(command) : [command.name(), ...command.aliases()].join('|')

/** A default as it would be typed; of a flag that may be given again it is nothing, and left out. */
const optionDescription: Help['optionDescription'] = (option) => {
  const { defaultValue, defaultValueDescription } = option
  if (Array.isArray(defaultValue) && defaultValue.length === 0) return option.description
  const isText = typeof defaultValue === 'string' && defaultValueDescription === undefined
  if (!isText) return Help.prototype.optionDescription(option)
  const shown = Object.assign(new Option(option.flags, option.description), option, { defaultValueDescription: defaultValue })
  return Help.prototype.optionDescription(shown)
}

/** Commands made in files of their own know nothing of the program's settings until they are told. */
function inherit(parent: Command): void {
  for (const command of parent.commands) {
    command.copyInheritedSettings(parent)
    inherit(command)
  }
}

/** The command was given up; whatever it waits for may hold up its end as well. */
class TooLate extends Failure {
  constructor(timeout: number) {
    super('UNAVAILABLE', `not done within the --timeout of ${timeout / 1000} s`)
  }
}

/** milliseconds that a command which was given up has for closing what it opened */
const closingTime = 3000

/** Milliseconds: enough to end what is being sent or asked on a busy machine. */
const grace = 5000

/** Enforces --timeout; a command that listens to `cli.signal` gets some seconds to end by itself and in its own words. */
async function runInTime(program: Command, cli: OwnedCli, argv: readonly string[]): Promise<void> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  let timer: NodeJS.Timeout | undefined
  program.hook('preAction', () => {
    const { timeout } = cli.options
    if (timeout === null) return
    const giveUp = () => reject(new TooLate(timeout))
    const onTime = () => {
      if (!cli.stop) giveUp()
      else timer = setTimeout(giveUp, grace)
    }
    timer = setTimeout(onTime, timeout)
  })
  try {
    await Promise.race([program.parseAsync(argv, { from: 'user' }), late])
  } finally {
    clearTimeout(timer)
  }
}

/** What `work` comes to, or null where it takes longer than `ms`. */
async function within<T>(ms: number, work: Promise<T>): Promise<T | null> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<null>((resolve) => {
    timer = setTimeout(() => resolve(null), ms)
  })
  return Promise.race([work, late]).finally(() => clearTimeout(timer))
}

async function failureOf(work: () => Promise<void>): Promise<{ error: unknown } | null> {
  try {
    await work()
    return null
  } catch (error) {
    return { error }
  }
}

/** The error without the id of a request that no log knows: of what is asked in this process, only what failed unforeseen is logged. */
function asLogged(error: unknown, { isHere }: OwnedCli): unknown {
  const { status, request_id } = error as { status?: unknown; request_id?: unknown }
  return isHere && request_id && Number(status) !== 500 ? Object.assign(error as Error, { request_id: null }) : error
}

/** `mark` makes an error of a line in the journal of systemd. */
function report(error: unknown, program: Command, cli: OwnedCli, mark: string): void {
  // Commander has shown the help of a group that was called without a subcommand.
  if ((error as { code?: unknown }).code === 'commander.help') return
  let isJson = program.opts<{ json?: boolean }>().json === true
  let isVerbose = false
  try {
    isJson = cli.options.isJson
    isVerbose = cli.options.verbose > 0
  } catch {
    // The flags themselves are what is wrong.
  }
  const lines = isJson ? [jsonLine(error, new Date())] : humanLines(error, isVerbose)
  for (const line of lines) cli.warn(`${mark}${line}`)
}
