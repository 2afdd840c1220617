import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { printStatus } from './status.ts'

export const ocrQueuePause = (cli: Cli): Command =>
  manual('pause', {
    summary: 'Begin no OCR job until the queue is resumed, whatever workers there are; what runs goes on to its end.',
    examples: [
      ['ocr queue pause', 'before a busy hour; uploads wait'],
      ['dms ocr queue pause && dms worker --once', 'all other work is done'],
    ],
    exits: '0 paused, also when it was · 4 not signed in · 5 not an admin · 69 unreachable',
    notes: ['`dms ocr queue status` says whether it is paused, dms_ocr_paused tells Prometheus.'],
  }).action(async () =>
    printStatus(cli, await (await cli.client()).ocrQueue.pause(), '✓ The OCR queue is paused; to go on: dms ocr queue resume'),
  )
