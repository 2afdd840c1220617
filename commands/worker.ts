import { Option } from 'commander'
import { maxTimer, parseCount, parseDurationFlag } from '../src/cli/arguments/flag-values.ts'
import { manual } from '../src/cli/output/manual.ts'
import { rejectOutputFlags } from '../src/cli/output/output.ts'
import type { Cli } from '../src/cli/runtime/context.ts'
import { usage } from '../src/cli/runtime/exit.ts'
import { loadServiceConfig, reloadLogLevel } from '../src/cli/runtime/installation.ts'
import { ignoreStop } from '../src/cli/runtime/stop.ts'

interface Options {
  queues?: string
  concurrency?: string
  migrate?: boolean
  once?: boolean
  maxJobs?: string
  maxTime?: string
  name?: string
  supervised?: boolean
}

export const worker = (cli: Cli) =>
  manual('worker', {
    summary: 'Run background jobs: OCR, sync, index, maintenance',
    examples: [
      ['worker', 'until stopped'],
      ['worker --once --max-time 55m --queues ocr -q', 'hourly, from cron'],
    ],
    exits:
      '0 stopped or finished · 8 migrations pending · 69 database unreachable · 78 configuration or schema invalid · 130, 143 second Ctrl-C or SIGTERM',
    notes: [
      'Runs on the server only.',
      'The first SIGTERM or Ctrl-C waits for running jobs (worker.shutdown_timeout). The second one releases them at once.',
      'SIGHUP reloads the log level and reopens the log file. SIGUSR1 logs the running jobs.',
    ],
  })
    .option('--queues <names>', 'run only these queues, separated by commas: ocr, sync, index, maintenance')
    .option('--concurrency <number>', 'documents processed at once; 0 is one per core')
    .option('--migrate', 'apply pending migrations first')
    .option('--once', 'run the jobs that are due, then exit')
    .option('--max-jobs <number>', 'exit after this many jobs')
    .option('--max-time <duration>', 'start no job after this time, and stop as on SIGTERM')
    .option('--name <name>', 'suffix of the worker name, after host and process id')
    .addOption(new Option('--supervised', 'worker process of a server; reads its configuration from there').hideHelp())
    .action(async (options: Options) => {
      if (options.supervised) return (await import('../src/worker/supervised.ts')).runSupervised(cli.serviceSignal)
      cli.rejectRemote('worker')
      rejectOutputFlags(cli.options, 'a worker prints its log (--log-format) and errors only')
      const { name } = options
      const maxJobs = options.maxJobs === undefined ? undefined : parseCount('--max-jobs', options.maxJobs)
      if (name !== undefined && !/^[\w.@:-]{1,64}$/.test(name))
        throw usage(`--name "${name}" has other characters than letters, digits and . _ @ : -, or more than 64`)
      const maxTimeMs = options.maxTime === undefined ? null : parseDurationFlag('--max-time', options.maxTime, maxTimer)
      const [{ runWorker }, { openHealth }] = await Promise.all([import('../src/worker/run.ts'), import('../src/server/worker-health.ts')])
      const settings = { 'worker.queues': options.queues, 'worker.concurrency': options.concurrency }
      const { config, warnings } = await loadServiceConfig(cli, settings)
      for (const warning of warnings) cli.warn(`warning: ${warning}`)
      const signal = maxTimeMs === null ? cli.serviceSignal : AbortSignal.any([cli.serviceSignal, AbortSignal.timeout(maxTimeMs)])
      await runWorker(config, {
        migrate: options.migrate ? 'always' : 'configured',
        once: options.once === true,
        maxJobs,
        label: name,
        signal,
        openHealth,
        onForcedExit: cli.onForcedExit,
        readLevel: () => reloadLogLevel(cli, settings),
      }).catch((error) => ignoreStop(error, cli.serviceSignal))
    })
