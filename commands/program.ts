/** The command tree, its global options, and the only place that turns errors into exit codes and messages. */
import { Command, Help, Option } from 'commander'
import { refuseEmptyValues } from '../src/cli/arguments/flag-values.ts'
import { rewriteLine, takesNextWord } from '../src/cli/arguments/rewrite-line.ts'
import {
  addLockTimeoutHint,
  addOwnerHint,
  describeConnectionError,
  formatErrorJson,
  formatErrorLines,
} from '../src/cli/output/error-lines.ts'
import { addFlagNames } from '../src/cli/output/field-flags.ts'
import { minWidthToWrap, wrapHelp } from '../src/cli/output/manual.ts'
import { topics } from '../src/cli/output/topics.ts'
import { type CliRuntime, createCli } from '../src/cli/runtime/context.ts'
import { exitOf, exits, Failure, isExpectedExit, usage } from '../src/cli/runtime/exit.ts'
import { formatFixFor } from '../src/cli/runtime/fix-flags.ts'
import { addGlobalOptions, type Terminal, terminalWidth } from '../src/cli/runtime/options.ts'
import { environment } from '../src/config/environment.ts'
import { NoData } from '../src/errors.ts'
import type { Fix } from '../src/log/fix.ts'
import { isJournal } from '../src/log/systemd-journal.ts'
import { readVersion } from '../src/version.ts'
import { firstWords } from './command-table.ts'

/** Runs a command line (without the program name) and returns its exit code. Calls `onTimeout` if --timeout ended it. Never throws. */
export async function main(argv: readonly string[], onTimeout: () => void): Promise<number> {
  // Without a listener SIGUSR1 starts Node's debugger on a local port.
  process.on('SIGUSR1', () => {})
  const { stdout, stderr } = process
  // A getter, because reading process.stdin opens it.
  const terminal: Streams = {
    env: environment(),
    stdout,
    stderr,
    get stdin() {
      return process.stdin
    },
  }
  return run(argv, terminal, onTimeout)
}

/** Runs a command line on the given streams, as main() does. */
export async function run(typed: readonly string[], terminal: Streams, onTimeout: () => void = () => {}): Promise<number> {
  const { program, cli } = await programFor(terminal, typed)
  const argv = rewriteLine(program, typed)
  const code = await runToExitCode(program, cli, argv, onTimeout)
  return firstWords[firstWord(program, argv) ?? '']?.isProbe && code > 1 ? 1 : code
}

async function runToExitCode(program: Command, cli: CliRuntime, argv: readonly string[], onTimeout: () => void): Promise<number> {
  let command = program
  program.hook('preAction', (_, running) => {
    command = running
  })
  const runFailure = await catchFailure(() => runWithTimeout(program, cli, argv))
  const isActionRunning = runFailure?.error instanceof CommandTimeout
  if (isActionRunning || cli.stop?.signal.reason?.name === 'TimeoutError') onTimeout()
  const closing = catchFailure(() => cli.close(isActionRunning))
  if (isActionRunning) await (await import('../src/concurrency.ts')).waitAtMost(closeTimeoutMs, closing)
  const closeFailure = isActionRunning ? null : await closing
  const failure = runFailure ?? closeFailure ?? timeoutOf(cli)
  // A signal overrides the exit of the command.
  if (!failure) return exits[cli.stop?.exit ?? cli.exit][0]
  const isAborted = failure.error instanceof Error && failure.error.name === 'AbortError'
  if (isAborted && cli.stop?.exit) return exits[cli.stop.exit][0]
  // An AbortError does not say why it was raised; the reason of the signal does (--timeout).
  const isTimeout = isAborted && cli.stop?.signal.aborted
  const error = isTimeout ? cli.stop?.signal.reason : await describeError(failure.error, cli)
  const canWait = command.options.some(({ long }) => long === '--lock-timeout')
  if (!isExpectedExit(error))
    report(
      addFlagNames(addOwnerHint(addLockTimeoutHint(withoutUnloggedId(error, cli), canWait), cli), command),
      program,
      cli,
      isJournal(cli.env) ? '<3>' : '',
    )
  return exits[exitOf(error)][0]
}

/** Returns the error of a command that stopped its work after --timeout and has set its exit itself; null for another command. */
function timeoutOf({ exit, stop }: CliRuntime): { error: unknown } | null {
  const reason = stop?.signal.reason as Error | undefined
  if (exit !== 'PENDING' || reason?.name !== 'TimeoutError') return null
  return { error: new Failure('PENDING', `${reason.message}: the work is not complete`) }
}

/** Adds the folders that may hold the data to NoData, and the peer to connection errors. */
async function describeError(error: unknown, cli: CliRuntime): Promise<unknown> {
  if (!(error instanceof NoData)) return describeConnectionError(error, cli.server)
  return (await import('../src/cli/runtime/missing-archive.ts')).describeMissingArchive(error, cli)
}

export type Streams = Parameters<typeof createCli>[1]

/** Returns the command tree. With `argv`, only the command that `argv` names is loaded; the others have a summary only. */
export async function programFor(terminal: Streams, argv?: readonly string[]): Promise<{ program: Command; cli: CliRuntime }> {
  const program = new Command('dms')
  const cli = createCli(program, terminal)
  addFlags(program, cli, terminal)
  const loadAll = async () => (await programFor(terminal)).program
  const first = argv && firstWord(program, argv)
  // Commands have options named --version for versions of documents.
  program.version(readVersion(), first === undefined ? '-V, --version' : '-V', 'print the version')
  for (const [name, { summary, aliases = [], isHidden = false, load }] of Object.entries(firstWords)) {
    const isLoaded = argv === undefined || [name, ...aliases].some((word) => word === first)
    const command = isLoaded ? (await load())(cli, loadAll) : unloadedCommand(name).summary(summary).aliases(aliases)
    program.addCommand(command, { hidden: isHidden })
  }
  inherit(program)
  return { program, cli }
}

/** Creates a placeholder for a command that is not loaded. Running it throws Failure USAGE. */
const unloadedCommand = (name: string): Command =>
  new Command(name).action(() => {
    throw usage(`cannot read the words before "${name}"`, `put them after: dms ${name}`)
  })

/** Returns the first word that is neither a global flag nor the value of one. */
function firstWord(program: Command, argv: readonly string[]): string | undefined {
  let isValue = false
  return argv.find((word) => {
    if (isValue) {
      isValue = false
      return false
    }
    isValue = takesNextWord(program.options, word)
    return !word.startsWith('-')
  })
}

function addFlags(program: Command, cli: CliRuntime, terminal: Pick<Terminal, 'env' | 'stdout'>): void {
  program
    .description('A document management server: store, OCR, search, sync and share documents')
    .helpOption('-h, --help', 'show help')
    .addHelpText(
      'after',
      `\nTopics: dms help ${Object.keys(topics).join(' | ')}\nManual pages: dms docs man --dir /usr/local/share/man/man1`,
    )
    .helpCommand(false)
    .exitOverride()
    .configureHelp({ showGlobalOptions: false, minWidthToWrap, subcommandTerm, optionDescription, boxWrap: wrapHelp })
    .configureOutput({
      outputError() {},
      writeOut: cli.write,
      getOutHelpWidth: () => terminalWidth(terminal),
      getErrHelpWidth: () => terminalWidth(terminal),
    })
  addGlobalOptions(program)
  program.hook('preAction', async (_, running) => {
    refuseEmptyValues(running)
    await cli.prepare()
    if (cli.options.isInit) await (await import('../src/cli/runtime/installation.ts')).createArchive(cli)
  })
}

/** Shows bare words in `dms --help`, because the arguments of unloaded commands are unknown. */
const subcommandTerm: Help['subcommandTerm'] = (command) =>
  command.parent?.parent ? Help.prototype.subcommandTerm(command) : [command.name(), ...command.aliases()].join('|')

/** Shows a default as it is typed, and omits the empty default of repeatable flags. */
const optionDescription: Help['optionDescription'] = (option) => {
  const { defaultValue, defaultValueDescription } = option
  if (Array.isArray(defaultValue) && defaultValue.length === 0) return option.description
  const isText = typeof defaultValue === 'string' && defaultValueDescription === undefined
  if (!isText) return Help.prototype.optionDescription(option)
  const shown = Object.assign(new Option(option.flags, option.description), option, { defaultValueDescription: defaultValue })
  return Help.prototype.optionDescription(shown)
}

/** Copies the settings of the program to commands that were built without a parent. */
function inherit(parent: Command): void {
  for (const command of parent.commands) {
    command.copyInheritedSettings(parent)
    inherit(command)
  }
}

/** The command did not end after --timeout. Closing its resources may hang as well. */
class CommandTimeout extends Failure {
  constructor(timeoutMs: number) {
    super('UNAVAILABLE', `--timeout of ${timeoutMs / 1000} s has passed`)
  }
}

/** Time for closing resources after a CommandTimeout. */
const closeTimeoutMs = 3000

/** Time between --timeout and CommandTimeout, for commands that stop by themselves. */
const graceMs = 5000

/** Enforces --timeout. A command that listens to `cli.signal` has `graceMs` to end with its own message. */
async function runWithTimeout(program: Command, cli: CliRuntime, argv: readonly string[]): Promise<void> {
  const { promise: timedOut, reject } = Promise.withResolvers<never>()
  let timer: NodeJS.Timeout | undefined
  program.hook('preAction', () => {
    const { timeoutMs: timeout } = cli.options
    if (timeout === null) return
    const fail = () => reject(new CommandTimeout(timeout))
    const onTimeout = () => {
      if (!cli.stop) fail()
      else timer = setTimeout(fail, graceMs)
    }
    timer = setTimeout(onTimeout, timeout)
  })
  try {
    await Promise.race([program.parseAsync(argv, { from: 'user' }), timedOut])
  } finally {
    clearTimeout(timer)
  }
}

async function catchFailure(work: () => Promise<void>): Promise<{ error: unknown } | null> {
  try {
    await work()
    return null
  } catch (error) {
    return { error }
  }
}

/** Removes the request id of errors that are not in a log: requests in this process are logged only with status 500. */
function withoutUnloggedId(error: unknown, { localApp }: CliRuntime): unknown {
  const { status, request_id } = error as { status?: unknown; request_id?: unknown }
  return localApp && request_id && Number(status) !== 500 ? Object.assign(error as Error, { request_id: null }) : error
}

/** Prints the error. `mark` is the priority prefix for the systemd journal. */
function report(error: unknown, program: Command, cli: CliRuntime, mark: string): void {
  // Commander has already printed the help of a group without a subcommand.
  if ((error as { code?: unknown }).code === 'commander.help') return
  let isJson = program.opts<{ json?: boolean }>().json === true
  let isVerbose = false
  const { fix } = error as { fix?: Fix }
  if (fix !== undefined) Object.assign(error as Error, { fix: formatFixFor(program, fix) })
  try {
    isJson = cli.options.isJson
    isVerbose = cli.options.verbose > 0
  } catch {
    // The global flags are invalid.
  }
  const lines = isJson ? [formatErrorJson(error, new Date())] : formatErrorLines(error, { isVerbose })
  for (const line of lines) cli.warn(`${mark}${line}`)
}
