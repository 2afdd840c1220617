import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { clientThatWorks, lookUntil, readsHere, refuseLate } from '../../src/cli/runtime/waiting.ts'
import { printStatus } from './status.ts'

export const ocrQueueWait = (cli: Cli): Command =>
  manual('wait', {
    summary: 'Wait until nothing is pending or processing.',
    examples: [
      ['dms ocr queue wait --timeout 2h && dms documents list --since 1d', ''],
      ['dms documents upload -r scans -q && dms ocr queue wait', ''],
    ],
    exits: '0 all read · 3 some failed meanwhile · 8 --timeout passed · 69 unreachable · 130 interrupted',
    notes: [readsHere],
  }).action(async () => {
    const client = await clientThatWorks(cli, 'ocr queue wait')
    const before = await client.ocrQueue.status()
    if (before.paused) cli.warn('the OCR queue is paused: nothing is begun until dms ocr queue resume')
    let now = before
    const progress = cli.progress('reading')
    const most = before.pending + before.processing
    const isEmpty = await lookUntil(cli, async () => {
      now = await client.ocrQueue.status()
      const left = now.pending + now.processing
      progress.update({ done: Math.max(0, most - left), total: most })
      return left === 0
    })
    progress.done()
    printStatus(cli, now)
    if (!isEmpty) refuseLate(cli, `${now.pending + now.processing} OCR jobs are left`)
    if (now.failed > before.failed) cli.exit = 'PARTIAL'
  })
