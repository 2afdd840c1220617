import { Option } from 'commander'
import { parseDurationFlag } from '../src/cli/arguments/flag-values.ts'
import { manual } from '../src/cli/output/manual.ts'
import { rejectOutputFlags } from '../src/cli/output/output.ts'
import type { Cli } from '../src/cli/runtime/context.ts'
import { loadServiceConfig, reloadLogLevel } from '../src/cli/runtime/installation.ts'
import { ignoreStop } from '../src/cli/runtime/stop.ts'

interface Options {
  host?: string
  port?: string
  socket?: string
  migrate?: boolean
  worker: boolean
  withWorker?: boolean
  check?: boolean
  waitForDb: string
}

export const serve = (cli: Cli) =>
  manual('serve', {
    summary: 'Start the HTTP server and a worker',
    examples: [
      ['serve', 'on http://127.0.0.1:8080, with all files in the data folder'],
      ['serve --host 0.0.0.0 --migrate', 'in a container'],
      ['DATABASE_URL=postgres://… dms serve --no-worker', ''],
    ],
    exits: '0 stopped · 1 port in use · 8 migrations pending · 69 database unreachable · 78 configuration or schema invalid',
    notes: [
      'Runs on the server only. Under systemd it accepts the socket of dms.socket and reports readiness.',
      'SIGHUP reloads the certificate and the log level, and reopens the log file. SIGUSR1 logs the current status.',
    ],
  })
    .option('--host <address>', 'address to listen on')
    .option('--port <number>', 'port to listen on; 0 picks a free one')
    .option('--socket <path>', 'unix socket to listen on instead')
    .option('--migrate', 'apply pending migrations first (always done for the embedded database)')
    .option('--no-worker', 'run no jobs; needs a separate `dms worker`')
    .addOption(new Option('--with-worker', 'run jobs, whatever worker.embedded says').conflicts('worker'))
    .option('--check', 'check configuration, database and port, then exit')
    .option('--wait-for-db <duration>', 'time to wait for the database', '30s')
    .action(async (options: Options) => {
      cli.rejectRemote('serve')
      rejectOutputFlags(cli.options, 'a server prints its log (--log-format) and errors only')
      const { runServer } = await import('../src/server/run.ts')
      const settings = {
        'server.host': options.host,
        'server.port': options.port,
        'server.socket': options.socket,
        'worker.embedded': options.withWorker || !options.worker ? options.worker : undefined,
      }
      const { config, warnings } = await loadServiceConfig(cli, settings)
      for (const warning of warnings) cli.warn(`warning: ${warning}`)
      await runServer(config, {
        migrate: options.migrate ? 'always' : 'embedded',
        checkOnly: options.check === true,
        waitForDatabaseMs: parseDurationFlag('--wait-for-db', options.waitForDb),
        signal: cli.serviceSignal,
        onForcedExit: cli.onForcedExit,
        env: cli.env,
        printLine: (line) => (options.check ? cli.note(line) : cli.warn(line)),
        readLevel: () => reloadLogLevel(cli, settings),
      }).catch((error) => ignoreStop(error, cli.serviceSignal))
    })
