/** The tree of words, the flags of all, and the one catch that turns whatever happens into an exit code and a line on standard error. */
import { Command } from 'commander'
import { createCli, exitAfter, type OwnedCli } from '../src/cli/context.ts'
import { exitOf, exits, Failure, isShown } from '../src/cli/exit.ts'
import { humanLines, jsonLine } from '../src/cli/failure-lines.ts'
import { addGlobalOptions, type Terminal, widthOf } from '../src/cli/options.ts'
import { environment } from '../src/config.ts'
import { versionOfDms } from '../src/version.ts'
import { api } from './api.ts'
import { audit } from './audit.ts'
import { backup } from './backup.ts'
import { check } from './check.ts'
import { comments } from './comments.ts'
import { completion } from './completion.ts'
import { config } from './config.ts'
import { context } from './context.ts'
import { doctor } from './doctor.ts'
import { documents } from './documents.ts'
import { events } from './events.ts'
import { healthcheck } from './healthcheck.ts'
import { help } from './help.ts'
import { labels } from './labels.ts'
import { login } from './login.ts'
import { logout } from './logout.ts'
import { maintenance } from './maintenance.ts'
import { metrics } from './metrics.ts'
import { migrate } from './migrate.ts'
import { notifications } from './notifications.ts'
import { ocr } from './ocr-queue.ts'
import { restore } from './restore.ts'
import { search } from './search.ts'
import { serve } from './serve.ts'
import { settings } from './settings.ts'
import { sharedLinks } from './shared-links.ts'
import { sources } from './sources.ts'
import { tokens } from './tokens.ts'
import { users } from './users.ts'
import { version } from './version.ts'
import { whoami } from './whoami.ts'
import { worker } from './worker.ts'

/** Runs one command line (without the program's name) and answers its exit code. Never throws. */
export async function main(argv: readonly string[]): Promise<number> {
  // Without a listener this signal opens Node's debugger to everybody on the machine.
  process.on('SIGUSR1', () => {})
  return run(argv, { env: environment(), stdin: process.stdin, stdout: process.stdout, stderr: process.stderr })
}

/** The same on another terminal. */
export async function run(argv: readonly string[], terminal: Streams): Promise<number> {
  const { program, cli } = programFor(terminal)
  const failed = await failureOf(() => runInTime(program, cli, argv))
  const closing = failureOf(() => cli.end())
  const unclosed = failed?.error instanceof TooLate ? await within(closingTime, closing) : await closing
  const failure = failed ?? unclosed
  if (!failure) return exits[exitAfter(cli)][0]
  const { error } = failure
  const isAborted = error instanceof Error && error.name === 'AbortError'
  if (isAborted && cli.stop?.exit) return exits[cli.stop.exit][0]
  if (!isShown(error)) report(error, program, cli, await markOf(cli))
  return exits[exitOf(error)][0]
}

export type Streams = Parameters<typeof createCli>[1]

/** The tree of words, and what its commands are handed. */
export function programFor(terminal: Streams): { program: Command; cli: OwnedCli } {
  const program = new Command('dms')
  const cli = createCli(program, terminal)
  addWords(program, cli, terminal)
  return { program, cli }
}

function addWords(program: Command, cli: OwnedCli, terminal: Pick<Terminal, 'env' | 'stdout'>): void {
  program
    .description('A document management server: stores, reads, searches, syncs and shares documents.')
    .version(versionOfDms(), '-V, --version', 'the version alone')
    .helpCommand(false)
    .exitOverride()
    .configureHelp({ showGlobalOptions: false })
    .configureOutput({
      outputError() {},
      writeOut: cli.write,
      getOutHelpWidth: () => widthOf(terminal),
      getErrHelpWidth: () => widthOf(terminal),
    })
  addGlobalOptions(program)
  program.hook('preAction', () => cli.prepare())

  program.addCommand(serve(cli))
  program.addCommand(worker(cli))
  program.addCommand(migrate(cli))
  program.addCommand(users(cli))
  program.addCommand(tokens(cli))
  program.addCommand(audit(cli))
  program.addCommand(documents(cli, program))
  program.addCommand(search(cli))
  program.addCommand(labels(cli))
  program.addCommand(sources(cli))
  program.addCommand(ocr(cli))
  program.addCommand(sharedLinks(cli))
  program.addCommand(comments(cli))
  program.addCommand(notifications(cli))
  program.addCommand(settings(cli))
  program.addCommand(metrics(cli))
  program.addCommand(backup(cli))
  program.addCommand(restore(cli))
  program.addCommand(check(cli))
  program.addCommand(doctor(cli))
  program.addCommand(maintenance(cli))
  program.addCommand(config(cli))
  program.addCommand(login(cli))
  program.addCommand(logout(cli))
  program.addCommand(whoami(cli))
  program.addCommand(context(cli))
  program.addCommand(api(cli))
  program.addCommand(events(cli))
  program.addCommand(healthcheck(cli))
  program.addCommand(version(cli))
  program.addCommand(completion(cli, program))
  program.addCommand(help(cli, program))

  inherit(program)
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

/** What makes an error of a line in the journal of systemd. */
const markOf = async ({ env }: OwnedCli): Promise<string> =>
  env.JOURNAL_STREAM && (await import('../src/log.ts')).isJournal(env) ? '<3>' : ''

function report(error: unknown, program: Command, cli: OwnedCli, mark: string): void {
  // Commander has shown the help of a group that was called without a subcommand.
  if ((error as { code?: unknown }).code === 'commander.help') return
  let isJson = program.opts<{ json?: boolean }>().json === true
  let isVerbose = false
  try {
    isJson = cli.options.format === 'json' || cli.options.format === 'jsonl'
    isVerbose = cli.options.verbose > 0
  } catch {
    // The flags themselves are what is wrong.
  }
  const lines = isJson ? [jsonLine(error, new Date())] : humanLines(error, isVerbose)
  for (const line of lines) cli.warn(`${mark}${line}`)
}
