/** Context of a command: options, output, and lazily loaded parts. */
import type { Command } from 'commander'
import type { App } from '../../app.ts'
import type { Client } from '../../client/client.ts'
import { captureUser } from '../../config/environment.ts'
import type { ConfigSources, FlagSettings, LoadedConfig } from '../../config/load.ts'
import type { Config } from '../../config/schema.ts'
import { escapeControls } from '../../log/escape.ts'
import type { Log } from '../../log/log.ts'
import type { OpenOptions } from '../../open-app.ts'
import { connectErrorMessage } from '../output/error-lines.ts'
import { render, type Shape } from '../output/output.ts'
import { type Contexts, localContext } from '../remote/contexts.ts'
import type { ConnectOptions } from '../remote/remote-client.ts'
import { rejectLocalFlags, rejectRemoteTarget, resolveTarget, type Target } from '../remote/target.ts'
import { type Exit, usage } from './exit.ts'
import { type GlobalOptions, readGlobalOptions, type Terminal } from './options.ts'
import { type Progress, printOnSignal, startProgress } from './progress.ts'
import { type StopWatcher, watchStopSignals } from './stop.ts'

export interface Cli {
  /** environment of this process */
  readonly env: Readonly<Record<string, string | undefined>>
  /** global flags; readable inside an action */
  readonly options: GlobalOptions
  /** aborted by the first SIGINT, SIGTERM or SIGHUP and by --timeout: start nothing new then */
  readonly signal: AbortSignal
  /** variant for services: SIGINT and SIGTERM are the normal end, SIGHUP is ignored; read it before `signal` */
  readonly serviceSignal: AbortSignal
  /** registers work that a second signal waits for, up to 3 s; read `signal` or `serviceSignal` first */
  onForcedExit(work: () => Promise<void>): void
  /** exit of a command that did not throw (PARTIAL, PENDING) */
  exit: Exit
  /** prints the result: rows or one object. With --quiet the result of an action or check is an error message, or nothing if `exit` is OK. */
  print<T extends object>(result: T | readonly T[], shape: Shape<T>): void
  /** writes text to standard output unchanged */
  write(text: string): void
  /** prints a line to standard error, unless --quiet */
  note(text: string): void
  /** prints a line to standard error, even with --quiet */
  warn(text: string): void
  /** starts the progress of `phase`; one at a time */
  progress(phase: string): Progress
  /** sources of the configuration; each file is read once */
  configSources(settings?: FlagSettings): ConfigSources
  /** loads the configuration; `settings` are flags of the command by dotted key. Throws ConfigError. */
  config(settings?: FlagSettings): Promise<LoadedConfig>
  /** loads the configuration of a command that works on the data folder, and calls actAsOwner(). Throws ConfigError. */
  localConfig(settings?: FlagSettings): Promise<LoadedConfig>
  /** changes root to the owner of the data folder, for the rest of the process. Throws ConfigError. */
  actAsOwner(config: Pick<Config, 'data_dir'>): Promise<void>
  /** user that root acts as */
  readonly dataOwner: string | null
  /** server to work on; readable inside an action. Throws Failure if flags, variables and contexts.toml select none. */
  readonly target: Target
  /** client of the remote server, or of the API in this process as the operator or the user of --as */
  client(): Promise<Client>
  /** options of clients of remote servers */
  readonly connectOptions: ConnectOptions
  /** throws Failure USAGE if flags or variables select a remote server */
  rejectRemote(command: string): void
  /** opens the App for a command that runs on the server only; throws Failure USAGE as rejectRemote() */
  app(command: string, options?: Partial<OpenOptions> & { readonly log?: Log }): Promise<App>
  /** the App that client() calls in this process; null for a remote server */
  readonly localApp: App | null
  /** registers work for the end of the command; the last registration runs first */
  onEnd(work: () => void | Promise<void>): void
}

export interface CliRuntime extends Cli {
  /** loads contexts.toml before the action */
  prepare(): Promise<void>
  /** watches for stop requests; null until `signal` is read */
  readonly stop: StopWatcher | null
  /** server of the client; null without a client of a remote server */
  readonly server: string | null
  /** ends the command; if its action still runs, results and notes of it are dropped */
  close(isActionRunning: boolean): Promise<void>
}

/** Creates the context of one run. */
export function createCli(program: Command, terminal: Terminal & { stdout: NodeJS.WriteStream; stderr: NodeJS.WriteStream }): CliRuntime {
  const { env, stdout, stderr } = terminal
  const user = captureUser(env)
  const endings: (() => void | Promise<void>)[] = []
  // Seconds. `performance` would load a dozen modules of Node that `dms --help` does not need.
  const started = process.uptime()
  let options: GlobalOptions | null = null
  let localApp: App | null = null
  let server: string | null = null
  let stop: StopWatcher | null = null
  let activeProgress: Progress | null = null
  let dataOwner: string | null = null
  let hasEnded = false
  let contexts: Contexts = { current: localContext, byName: new Map() }
  let contextsProblem: { error: unknown } | null = null

  const print = (stream: NodeJS.WriteStream, text: string): void => {
    if (hasEnded && stream === stdout) return
    activeProgress?.clear()
    stream.write(text)
  }
  const open = async ({ log, migrate = 'never', ...more }: Partial<OpenOptions> & { log?: Log } = {}): Promise<App> => {
    const loaded = await cli.localConfig()
    const [{ openApp }, { openCommandLog }] = await Promise.all([import('../../open-app.ts'), import('../remote/local-client.ts')])
    const app = await openApp(loaded.config, log ?? (await openCommandLog(loaded, cli.options)), { migrate, ...more })
    endings.push(() => app.close())
    return app
  }
  // Only a user at a terminal can press Ctrl-C again.
  const hint = (text: string): void => (stderr.isTTY ? cli.note(text) : undefined)
  let pauseEndMs = 0
  const pause = async (seconds: number, error?: unknown): Promise<void> => {
    const now = performance.now()
    // Concurrent requests ask for the same pause.
    if (now >= pauseEndMs) {
      if (error === undefined) cli.note(`the server is busy; trying again in ${seconds} s`)
      // Without a terminal only the final error is printed.
      else if (stderr.isTTY || cli.options.verbose > 0) cli.note(`${connectErrorMessage(error)}; trying again in ${seconds} s`)
    }
    pauseEndMs = now + seconds * 1000
    const { setTimeout: sleep } = await import('node:timers/promises')
    await sleep(seconds * 1000, undefined, { signal: cli.signal })
  }
  const watch = (isService: boolean): AbortSignal => {
    if (!stop) {
      stop = watchStopSignals(cli.options.timeoutMs, hint, isService, (process.uptime() - started) * 1000)
      endings.push(stop.end)
      const onParentExit = (): void => {
        cli.warn('the npm process that started dms has ended; stopping')
        process.kill(process.pid, 'SIGTERM')
      }
      if (env.npm_command) void import('./npm-parent.ts').then(({ watchNpmParent }) => endings.push(watchNpmParent(env, onParentExit)))
    }
    return stop.signal
  }
  const cli: CliRuntime = {
    env,
    exit: 'OK',
    get options() {
      options ??= readGlobalOptions(program, terminal)
      return options
    },
    get localApp() {
      return localApp
    },
    get stop() {
      return stop
    },
    get server() {
      return server
    },
    get signal() {
      return watch(false)
    },
    get serviceSignal() {
      return watch(true)
    },
    onForcedExit: (work) => stop?.onForcedExit(work),
    print(result, shape) {
      const isSilent = cli.options.isSilent && !(shape.isQuery ?? shape.sentence === undefined)
      if (!isSilent) print(stdout, render(result, shape, cli.options))
      else if (cli.exit !== 'OK') print(stderr, render(result, shape, { ...cli.options, isHuman: true }))
    },
    write: (text) => print(stdout, text),
    note(text) {
      if (!cli.options.isQuiet && !hasEnded) print(stderr, `${escapeControls(text)}\n`)
    },
    warn: (text) => print(stderr, `${escapeControls(text)}\n`),
    progress(phase) {
      // A terminal without a size (serial line, some containers) makes ora count lines forever.
      const canSpin = stderr.isTTY === true && stderr.columns > 0
      activeProgress?.done()
      const progress = startProgress(phase, cli.options, canSpin, (text) => stderr.write(text))
      activeProgress = printOnSignal(progress, () => {
        activeProgress = null
      })
      return activeProgress
    },
    configSources: (settings = {}) => ({ ...user, file: cli.options.config, flags: { ...cli.options.settings, ...settings } }),
    config: async (settings) => (await import('../../config/load.ts')).loadConfig(cli.configSources(settings)),
    async localConfig(settings) {
      const loaded = await cli.config(settings)
      await cli.actAsOwner(loaded.config)
      return loaded
    },
    async actAsOwner({ data_dir }) {
      // Only root loads the module.
      if (process.getuid?.() === 0) dataOwner = await (await import('./data-owner.ts')).actAsOwner(data_dir)
    },
    get dataOwner() {
      return dataOwner
    },
    async prepare() {
      const { loadContexts } = await import('../remote/contexts-file.ts')
      try {
        contexts = await loadContexts(env)
      } catch (error) {
        contextsProblem = { error }
      }
    },
    get target() {
      const { requestedTarget } = cli.options
      // Commands on this machine do not need contexts.toml.
      if (contextsProblem && !requestedTarget.isLocal) throw contextsProblem.error
      return resolveTarget(requestedTarget, contexts)
    },
    get connectOptions() {
      const { options, note, warn } = cli
      return { env, options, note, warn, pause, isTerminal: stderr.isTTY === true }
    },
    async client() {
      const target = cli.target
      if (target.url === null) {
        if (cli.options.printCurl)
          throw usage(
            '--print-curl needs a remote server; commands on this machine send no HTTP requests',
            'pass --url URL or --context NAME',
          )
        const { openLocalClient } = await import('../remote/local-client.ts')
        localApp = await open()
        return openLocalClient(localApp, cli)
      }
      rejectLocalFlags(cli.options, target.url)
      if (cli.options.printCurl) return (await import('../remote/curl-client.ts')).createCurlClient(target, cli.write)
      const { openRemoteClient } = await import('../remote/remote-client.ts')
      const client = await openRemoteClient(target, cli.connectOptions)
      server = target.url
      endings.push(() => client.close())
      return client
    },
    rejectRemote(command) {
      rejectRemoteTarget(command, cli.options.requestedTarget)
      if (cli.options.printCurl) throw usage(`--print-curl: "dms ${command}" runs on the server only and sends no requests`)
    },
    async app(command, options) {
      cli.rejectRemote(command)
      return open(options)
    },
    onEnd: (work) => void endings.push(work),
    async close(isActionRunning) {
      hasEnded = isActionRunning
      activeProgress?.done()
      for (const work of endings.reverse()) await work()
    },
  }
  return cli
}
