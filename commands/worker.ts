import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { durationOf } from '../src/cli/duration.ts'
import { manual } from '../src/cli/manual.ts'

interface Options {
  queues?: string
  concurrency?: string
  once?: boolean
  maxTime?: string
}

/** `dms worker`: jobs without a server. */
export const worker = (cli: Cli): Command =>
  manual('worker', {
    summary: 'Run background jobs (reading and OCR, syncs of sources, index, maintenance).',
    examples: [
      ['worker', 'until it is stopped'],
      ['worker --once --max-time 55m --queues ocr -q', 'from cron, every hour'],
    ],
    exits: '0 stopped or done · 8 migrations pending · 69 database unreachable · 78 configuration or schema wrong',
    notes: ['Runs on the server only.'],
  })
    .option('--queues <names>', 'only these, separated by commas: ocr, sync, index, maintenance')
    .option('--concurrency <number>', 'documents read at once; 0 takes one per core')
    .option('--once', 'run what can be run now, then exit')
    .option('--max-time <duration>', 'begin nothing more after this time, and exit as on SIGTERM')
    .action(async (options: Options) => {
      cli.refuseRemote('worker')
      const most = options.maxTime === undefined ? null : durationOf('--max-time', options.maxTime)
      const { runWorker } = await import('../src/worker/run.ts')
      const { config, warnings } = await cli.config({
        ...(options.queues === undefined ? {} : { 'worker.queues': options.queues }),
        ...(options.concurrency === undefined ? {} : { 'worker.concurrency': options.concurrency }),
      })
      for (const warning of warnings) cli.warn(`warning: ${warning}`)
      const signal = most === null ? cli.serviceSignal : AbortSignal.any([cli.serviceSignal, AbortSignal.timeout(most)])
      await runWorker(config, { once: options.once === true, signal })
    })
