import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { inProcessWorkerNote, openClientWithWorker, pollUntil, throwIfTimedOut } from '../../src/cli/runtime/wait.ts'
import { printStatus } from './status.ts'

export const ocrQueueWait = (cli: Cli): Command =>
  manual('wait', {
    summary: 'Wait until the OCR queue is empty',
    examples: [
      ['dms ocr queue wait --timeout 2h && dms documents list --since 1d', ''],
      ['dms documents upload -r scans -q && dms ocr queue wait', ''],
    ],
    exits: '0 empty · 3 some failed meanwhile · 8 --timeout passed · 69 server unreachable · 130 interrupted',
    notes: [inProcessWorkerNote],
  }).action(async () => {
    const client = await openClientWithWorker(cli, 'ocr queue wait')
    const before = await client.ocrQueue.status()
    if (before.paused) cli.warn('warning: the OCR queue is paused; fix: dms ocr queue resume')
    let now = before
    const progress = cli.progress('ocr')
    const total = before.pending + before.processing
    const isEmpty = await pollUntil(cli, async () => {
      now = await client.ocrQueue.status()
      const left = now.pending + now.processing
      progress.update({ done: Math.max(0, total - left), total })
      return left === 0
    })
    progress.done()
    printStatus(cli, now)
    if (!isEmpty) throwIfTimedOut(cli, `${now.pending + now.processing} OCR jobs are unfinished`)
    if (now.failed > before.failed) cli.exit = 'PARTIAL'
  })
