import { type Command, Option } from 'commander'
import { durationOf } from '../src/cli/arguments/duration.ts'
import { manual } from '../src/cli/output/manual.ts'
import type { Cli } from '../src/cli/runtime/context.ts'
import { usage } from '../src/cli/runtime/exit.ts'
import { serviceConfig } from '../src/cli/runtime/service-config.ts'

interface Options {
  queues?: string
  concurrency?: string
  once?: boolean
  maxJobs?: string
  maxTime?: string
  name?: string
  supervised?: boolean
}

/** `dms worker`: jobs without a server. */
export const worker = (cli: Cli): Command =>
  manual('worker', {
    summary: 'Run background jobs (reading and OCR, syncs of sources, index, maintenance).',
    examples: [
      ['worker', 'until it is stopped'],
      ['worker --once --max-time 55m --queues ocr -q', 'from cron, every hour'],
    ],
    exits:
      '0 stopped or done · 8 migrations pending · 69 database unreachable · 78 configuration or schema wrong · 130, 143 second Ctrl-C, SIGTERM',
    notes: [
      'Runs on the server only.',
      'The first SIGTERM or Ctrl-C lets running jobs end (worker.shutdown_timeout); the second gives them back at once.',
      'SIGHUP takes the level of the log anew and opens the log file again; SIGUSR1 says in the log what is being done.',
    ],
  })
    .option('--queues <names>', 'only these, separated by commas: ocr, sync, index, maintenance')
    .option('--concurrency <number>', 'documents read at once; 0 takes one per core')
    .option('--once', 'run what can be run now, then exit')
    .option('--max-jobs <number>', 'take no more than so many jobs, and exit when they are done')
    .option('--max-time <duration>', 'begin nothing more after this time, and exit as on SIGTERM')
    .option('--name <name>', 'follows host and process in the name that this worker goes by')
    .addOption(new Option('--supervised', 'the worker process of a server: takes its configuration from there').hideHelp())
    .action(async (options: Options) => {
      if (options.supervised) return (await import('../src/worker/supervised.ts')).runSupervised(cli.serviceSignal)
      cli.refuseRemote('worker')
      const { maxJobs, name } = options
      if (maxJobs !== undefined && !/^[1-9]\d{0,8}$/.test(maxJobs)) throw usage(`--max-jobs ${maxJobs}: a whole number from 1 on`)
      if (name !== undefined && !/^[\w.@:-]{1,64}$/.test(name))
        throw usage(`--name ${name}: up to 64 letters, digits and the signs . _ @ : -`)
      const most = options.maxTime === undefined ? null : durationOf('--max-time', options.maxTime)
      const [{ runWorker }, { openHealth }] = await Promise.all([import('../src/worker/run.ts'), import('../src/server/worker-health.ts')])
      const settings = {
        ...(options.queues === undefined ? {} : { 'worker.queues': options.queues }),
        ...(options.concurrency === undefined ? {} : { 'worker.concurrency': options.concurrency }),
      }
      const { config, warnings } = await serviceConfig(cli, settings)
      for (const warning of warnings) cli.warn(`warning: ${warning}`)
      const signal = most === null ? cli.serviceSignal : AbortSignal.any([cli.serviceSignal, AbortSignal.timeout(most)])
      await runWorker(config, {
        once: options.once === true,
        ...(maxJobs === undefined ? {} : { maxJobs: Number(maxJobs) }),
        ...(name === undefined ? {} : { label: name }),
        signal,
        openHealth,
        lastly: cli.lastly,
        levelNow: async () => (await serviceConfig(cli, settings)).config.log.level,
      })
    })
