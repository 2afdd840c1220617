/** What a command is handed: its options, its ways to speak, and the parts it may need, each loaded when it is asked for. */
import type { Command } from 'commander'
import type { App } from '../../app.ts'
import type { Client } from '../../client/client.ts'
import type { ConfigSources, LoadedConfig } from '../../config/load.ts'
import { escapeControls } from '../../log/escape.ts'
import type { Log } from '../../log/log.ts'
import type { OpenOptions } from '../../open-app.ts'
import { render, type Shape } from '../output/output.ts'
import type { There, Way } from '../remote/remote.ts'
import { refuseAsked, type Target, targetOf } from '../remote/target.ts'
import { type Exit, usage } from './exit.ts'
import { type GlobalOptions, readGlobalOptions, type Terminal } from './options.ts'
import { type Progress, startProgress } from './progress.ts'
import { type Stop, watchStop } from './stop.ts'

export interface Cli {
  /** the variables of this process */
  readonly env: Readonly<Record<string, string | undefined>>
  /** the flags every command takes; to be read inside an action */
  readonly options: GlobalOptions
  /** aborts at the first SIGINT, SIGTERM or SIGHUP, or when --timeout has passed: begin nothing new then */
  readonly signal: AbortSignal
  /** the same for a service: the first SIGINT or SIGTERM is its normal end, SIGHUP is left alone; ask for it before `signal` */
  readonly serviceSignal: AbortSignal
  /** done before a second signal ends everything at once, if it takes no longer than a moment; ask for `signal` or `serviceSignal` before */
  lastly(work: () => Promise<void>): void
  /** ends the command with this exit although nothing was thrown (PARTIAL, PENDING) */
  exit: Exit
  /** prints the result: a list of rows or one object */
  print<T extends object>(result: T | readonly T[], shape: Shape<T>): void
  /** puts text on standard output as it is */
  write(text: string): void
  /** says a line on standard error, unless --quiet */
  note(text: string): void
  /** says a line on standard error, with --quiet too */
  warn(text: string): void
  /** starts telling how far `phase` is; one at a time */
  progress(phase: string): Progress
  /** where this run's configuration comes from */
  configSources(settings?: Readonly<Record<string, string | number | boolean>>): ConfigSources
  /** the configuration; `settings` are the command's own flags by dotted key. Throws ConfigError. */
  config(settings?: Readonly<Record<string, string | number | boolean>>): Promise<LoadedConfig>
  /** the server to work on; to be read inside an action. Throws Failure where flags, variables and contexts.toml name none. */
  readonly target: Target
  /** the API: of the target elsewhere, else in this process as the operator (or the user of --as) */
  client(): Promise<Client>
  /** how clients of servers elsewhere speak and wait */
  readonly way: Way
  /** for a command that runs on the server only; throws Failure USAGE where flags or variables name another machine */
  refuseRemote(command: string): void
  /** everything dms has, for a command that runs on the server only; throws Failure USAGE as refuseRemote() does */
  app(command: string, options?: Partial<OpenOptions> & { readonly log?: Log }): Promise<App>
  /** runs at the end of the command, whatever its end; the last one first */
  onEnd(work: () => void | Promise<void>): void
}

export interface OwnedCli extends Cli {
  /** reads what options need, before any action */
  prepare(): Promise<void>
  /** the API was asked in this process */
  readonly isHere: boolean
  /** what came while somebody looked at `signal` */
  readonly stop: Stop | null
  end(): Promise<void>
}

/** A context for one run of the program. */
export function createCli(program: Command, terminal: Terminal & { stdout: NodeJS.WriteStream; stderr: NodeJS.WriteStream }): OwnedCli {
  const { env, stdout, stderr } = terminal
  const endings: (() => void | Promise<void>)[] = []
  // In seconds. `performance` would load a dozen parts of Node, which `dms --help` has no use for.
  const started = process.uptime()
  let options: GlobalOptions | null = null
  let isHere = false
  let stop: Stop | null = null
  let shown: Progress | null = null
  let findTarget = (): Target => targetOf(cli.options.asked, { current: 'local', known: new Map() })

  const say = (stream: NodeJS.WriteStream, text: string): void => {
    shown?.clear()
    stream.write(text)
  }
  const open = async ({ log, migrate = 'embedded', ...more }: Partial<OpenOptions> & { log?: Log } = {}): Promise<App> => {
    const loaded = await cli.config()
    const [{ openApp }, { commandLog }] = await Promise.all([import('../../open-app.ts'), import('../remote/local-client.ts')])
    const app = await openApp(loaded.config, log ?? (await commandLog(loaded, cli.options)), { migrate, ...more })
    endings.push(() => app.close())
    return app
  }
  // Only somebody at a terminal can press Ctrl-C again; a log of JSON lines has no use for the hint.
  const hint = (text: string): void => {
    if (stderr.isTTY) cli.note(text)
  }
  let pauseEnds = 0
  const pause = async (seconds: number, error?: unknown): Promise<void> => {
    const now = performance.now()
    // Requests made side by side are all asked for the same pause.
    if (now >= pauseEnds) {
      if (error === undefined) cli.note(`the server asks for a pause of ${seconds} s`)
      // Off a terminal the end of it is said once, as an error, or nobody has to know.
      else if (stderr.isTTY || cli.options.verbose > 0) cli.note(`${reasonOf(error)}; trying again in ${seconds} s`)
    }
    pauseEnds = now + seconds * 1000
    const { setTimeout: sleep } = await import('node:timers/promises')
    await sleep(seconds * 1000, undefined, { signal: cli.signal })
  }
  const watch = (isService: boolean): AbortSignal => {
    if (!stop) {
      stop = watchStop(cli.options.timeout, hint, isService, (process.uptime() - started) * 1000)
      endings.push(stop.end)
      const onNpmGone = (): void => {
        cli.warn('npm, which this process was started through, has ended: stopping')
        process.kill(process.pid, 'SIGTERM')
      }
      if (env.npm_command || env.DMS_LAUNCHER_PID)
        void import('./npm-parent.ts').then(({ watchNpm }) => endings.push(watchNpm(env, onNpmGone)))
    }
    return stop.signal
  }
  const cli: OwnedCli = {
    env,
    exit: 'OK',
    get options() {
      options ??= readGlobalOptions(program, terminal)
      return options
    },
    get isHere() {
      return isHere
    },
    get stop() {
      return stop
    },
    get signal() {
      return watch(false)
    },
    get serviceSignal() {
      return watch(true)
    },
    lastly: (work) => stop?.lastly(work),
    print: (result, shape) => say(stdout, render(result, shape, cli.options)),
    write: (text) => say(stdout, text),
    note(text) {
      if (!cli.options.isQuiet) say(stderr, `${escapeControls(text)}\n`)
    },
    warn: (text) => say(stderr, `${escapeControls(text)}\n`),
    progress(phase) {
      // A terminal without a size (a serial line, some containers) makes the spinner count its lines for ever.
      const canSpin = stderr.isTTY === true && stderr.columns > 0
      const progress = startProgress(phase, cli.options, canSpin, (text) => stderr.write(text))
      shown = progress
      process.on('SIGUSR1', progress.tell)
      endings.push(() => {
        process.removeListener('SIGUSR1', progress.tell)
        progress.done()
      })
      return progress
    },
    configSources: (settings = {}) => ({ env, file: cli.options.config, flags: { ...cli.options.settings, ...settings } }),
    async config(settings) {
      const { loadConfig } = await import('../../config/load.ts')
      return loadConfig(cli.configSources(settings))
    },
    async prepare() {
      const { readContexts } = await import('../remote/contexts-file.ts')
      try {
        const contexts = await readContexts(env)
        findTarget = () => targetOf(cli.options.asked, contexts)
      } catch (error) {
        // Commands that run here have no use for it.
        findTarget = () => {
          if (cli.options.asked.isLocal) return targetOf(cli.options.asked, { current: 'local', known: new Map() })
          throw error
        }
      }
    },
    get target() {
      return findTarget()
    },
    get way() {
      const { options, note, warn } = cli
      return { env, options, note, warn, pause, isWatched: stderr.isTTY === true }
    },
    async client() {
      const target = cli.target
      if (target.url === null) {
        if (cli.options.printCurl)
          throw usage('--print-curl needs a server elsewhere: this machine is asked without HTTP', 'pass --url URL or --context NAME')
        const { clientHere } = await import('../remote/local-client.ts')
        isHere = true
        return clientHere(await open(), cli.options.as)
      }
      const there: There = { ...target, url: target.url }
      refuseHere(cli.options, there.url)
      if (cli.options.printCurl) return (await import('../remote/print-curl.ts')).curlClient(there, cli.write)
      const { clientThere } = await import('../remote/remote.ts')
      const client = await clientThere(there, cli.way)
      endings.push(() => client.close())
      return client
    },
    refuseRemote(command) {
      refuseAsked(command, cli.options.asked)
      if (cli.options.printCurl) throw usage(`"dms ${command}" runs on the server only: it sends no request that could be printed`)
    },
    async app(command, options) {
      cli.refuseRemote(command)
      return open(options)
    },
    onEnd: (work) => void endings.push(work),
    async end() {
      for (const work of endings.reverse()) await work()
    },
  }
  return cli
}

/** What these say is about this machine. Throws Failure USAGE. */
function refuseHere({ as, config, settings }: GlobalOptions, url: string): void {
  const flag = as !== null ? `--as ${as}` : config !== undefined ? '--config' : settings.data_dir !== undefined ? '--data-dir' : null
  if (flag !== null) throw usage(`${flag} works on this machine only, not against ${url}`, 'pass --local')
}

/** Why a server was not reached; both addresses of a name may have their own reason. */
function reasonOf(error: unknown): string {
  const { code, message, errors } = error as { code?: unknown; message?: string; errors?: unknown[] }
  return message || (errors?.[0] as Error | undefined)?.message || String(code)
}

/** How a command ended that threw nothing: a signal counts before what the command says itself. */
export function exitAfter({ exit, stop }: OwnedCli): Exit {
  return stop?.exit ?? exit
}
